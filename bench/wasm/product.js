// SPDX-License-Identifier: MIT
// Compares builds of product.c in one process: each in turn, the median of the rounds.
//   node --no-experimental-fetch product.js FILE.js... [SIZE...]
"use strict";
const path = require("path");

const ROUNDS = 15, MILLISECONDS = 100;
const files = process.argv.slice(2).filter((word) => word.endsWith(".js"));
const sizes = process.argv.slice(2).filter((word) => /^\d+$/.test(word)).map(Number);
const median = (values) => values.slice().sort((a, b) => a - b)[values.length >> 1];

async function open(file, size) {
  const program = await require(path.resolve(file))();
  const status = program._product_open(size);
  if (status !== 0) throw new Error(`${file}: status ${status}`);
  const name = program.ccall("product_instructions", "string", [], []);
  const time = (times) => {
    const start = performance.now();
    if (program._product_run(times) !== 0) throw new Error(`${file} fails`);
    return (performance.now() - start) / times;
  };
  time(2); // the engine's slower compiler has been used until now
  return { file, name, time, sum: () => program._product_sum(), times: [] };
}

async function compare(size) {
  const builds = [];
  for (const file of files) builds.push(await open(file, size));
  for (const build of builds) build.count = Math.max(1, Math.round(MILLISECONDS / build.time(3)));
  for (let round = 0; round < ROUNDS; round++)
    for (const build of builds) build.times.push(build.time(build.count));
  const base = median(builds[0].times);
  for (const build of builds) {
    const milliseconds = median(build.times), rate = (2 * size ** 3) / milliseconds / 1e6;
    console.log(`${size}x${size} ${path.basename(build.file)} ${build.name} ${milliseconds.toFixed(3)} ms ` +
      `${rate.toFixed(2)} GFLOP/s ${(base / milliseconds).toFixed(2)}x sum ${build.sum()}`);
  }
}

(async () => {
  for (const size of sizes.length ? sizes : [64, 256, 512]) await compare(size);
})();
