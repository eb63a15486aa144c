# SPDX-License-Identifier: MIT
# The steps of tests/gpu.sh, the most useful first; gpu_runner.sh runs them. The first twelve fill
# 720 seconds; the others use the remaining time. With `dry`, every command is printed, and runs in
# miniature if it needs no GPU.

GPU_STEPS=(
  "warm|60|kernels of the later steps into the kernel cache, in parallel processes; measures nothing"
  "environment|5|the GPU, its driver, the compiler, compute-info"
  "checks|75|conformance, and tests of training, plans, and indexed, quantized and recurrent operations"
  "transfers|60|compute-bench: memory, batch, fit"
  "own|60|compute-bench without NVIDIA's libraries: products, attention, gelu, Winograd's filtering"
  "networks|150|whole networks in f32 beside torch, also compiled into CUDA graphs"
  "bf16|60|the same in bf16"
  "train|40|training steps beside torch, also compiled into CUDA graphs"
  "forms|40|operations and models with forms of their own: attention, scatter, gather, top-k, int8, cached keys"
  "opencl|40|compute-bench on opencl:0: products, elementwise, sums, convolutions"
  "sanitizer|60|compute-sanitizer on products and attention; beside it rows of the CPU (cpu-COMMIT.json)"
  "products|70|compute-bench: products; beside cuBLASLt's fastest algorithm (cublaslt-COMMIT.json)"
  "rows|120|compute-bench: all other suites"
  "torch|120|the rows of compute-bench in torch, compiled by max-autotune, channels last"
  "eager|90|the rows of compute-bench in torch, not compiled"
  "tests|300|the tests that the step checks leaves out"
)

# The tests of tests/operations/ whose last cell in variants.txt is `first` or `later`.
operation_tests() {
  local folder=$SETUP_ROOT/tests/operations file name words
  local -A step
  while read -r -a words; do
    [[ ${words[0]-#} == '#' ]] || step[${words[0]}]=${words[-1]}
  done <"$folder/variants.txt"
  for file in "$folder"/test_*.c; do
    name=${file##*/test_}
    name=${name%.c}
    [[ ${step[$name]-${step[default]}} != "$1" ]] || echo "operations_$name"
  done
}

# Tests that take the device from COMPUTE_TEST_DEVICE and need no stand-in driver. The first list
# contains the tests that have run least often on GPUs.
mapfile -t FIRST_TESTS < <(operation_tests first)
mapfile -t OTHER_TESTS < <(operation_tests later)
FIRST_TESTS+=(train_{call,dataset,faults,trainer,replicas,checkpoint}
  plan_{run,bindings,call,index_errors,training,endurance})
OTHER_TESTS+=(fit_{run,frames,graph,spots} graph_{gradients,gradient_cases,optimizer} eager_eager job_job
  tensor_{tensor,tensor_copy,tensor_fill,tensor_view,dlpack} batch_{batch,misuse,progress,steps}
  nn_{initialise,layers,networks,weights,edges} threads_plans public_use)

NETWORKS=resnet50_b1,mobilenetv2_b1,bert_b1,bert_b8,gpt2_prefill_b1,gpt2_decode_b1,resnet50_b8,mobilenetv2_b8
FILE_MODELS=(gpt2_cache resnet50_int8 mobilenetv2_int8) # only available as ONNX files
FORMS='attention_*,scatter_*,gather_*,embedding_*,top_k_*,cumsum_*'
PRODUCTS='matmul_2048*,matmul_8192*,matmul_bias_gelu_*,bias_gelu_*'
SEEDS='add_1M,add_10M,relu_1M,gelu_1M,softmax_1000x1000,matmul_128,matmul_256,matmul_512,matmul_1024,matmul_2048,XYNB_7'

# ---- Helpers of the steps -----------------------------------------------------------------------

needs() { # DEVICE
  [[ -n $dry || " ${devices[*]-} " == *" $1 "* ]] || skip "there is no $1 that is a GPU"
}

# Runs a command; with `dry`, only prints it.
act() {
  if [[ -z $dry ]]; then
    call "$@"
  else
    printf '\nwould run'
    printf ' %q' "$@"
    echo
  fi
}

# NAME DEVICE MINIATURE ARG…: runs compute-bench into NAME.json; with `dry`, only the case
# MINIATURE.
bench() {
  local name=$1 device=$2 miniature=$3
  shift 3
  local command=("$build/bin/compute-bench" --device "$device" --peers none --commit "$commit"
    --json "$parts/$name.json" "${size[@]}")
  act "${command[@]}" "$@"
  [[ -z $dry || $device == opencl* ]] || call "${command[@]}" --quick --filter "$miniature"
}

# Succeeds if python3 has these modules; otherwise prints the missing one.
python_has() {
  local module
  for module in "$@"; do
    python3 -c "import $module" 2>/dev/null || { echo "python3 has no $module"; return 1; }
  done
}

torch_works() {
  python_has torch || return
  python3 -c 'import torch; torch.zeros(1, device="cuda")' 2>/dev/null ||
    { echo "torch sees no GPU"; return 1; }
}

# SUITE ROWS ARG…: runs compare.py; without torch it measures only libcompute.
compare() {
  local suite=$1 rows=$2 reason
  shift 2
  if [[ -z $dry ]]; then
    reason=$(python_has numpy onnx) || [[ $suite == train ]] || skip "$reason"
    torch_works || true
  fi
  local command=(python3 "$SETUP_ROOT/bench/peers/compare.py" --device cuda:0 --build "$build"
    --suite "$suite" --rows "$rows" --rounds 3 --commit "$commit" "$@")
  act "${command[@]}"
  [[ -z $dry ]] || call "${command[@]}" --list
}

# DEVICE TEST…
ctests() {
  local device=$1 spread=$spread wanted
  shift
  if [[ ! -d $build/tests/bin ]] || ! command -v ctest >/dev/null; then
    skip "no ctest, or no tests were built"
  fi
  wanted="^($(IFS='|' && echo "$*"))\$"
  echo "tests that are not in the build:" "$(comm -23 <(printf '%s\n' "$@" | sort) \
    <(env -C "$build" ctest -N | sed -n 's/^ *Test *#[0-9]*: //p' | sort) | tr '\n' ' ')"
  [[ -z $dry ]] || wanted='^base_status$'
  COMPUTE_TEST_DEVICE=$device COMPUTE_TEST_STRICT=1 COMPUTE_TEST_SPREAD=$spread \
    call env -C "$build" ctest --parallel 8 --output-on-failure --timeout 120 -R "$wanted"
}

# Prints the logs of programs that ran in parallel.
show_logs() {
  local log
  for log in "$parts"/*.log; do
    [[ -e $log ]] || continue
    echo "== ${log##*/}"
    cat "$log"
    rm "$log"
  done
}

# ---- The steps ----------------------------------------------------------------------------------

# Without NVIDIA's libraries, since autotuning them needs an idle GPU. Kernels fused with library
# calls are compiled later.
step_warm() {
  local shard shards row most=$cores
  local bench=("$build/bin/compute-bench" --device cuda:0 --prepare)
  needs cuda:0
  export COMPUTE_CUDA_LIBRARIES=none
  shards=('elementwise/*' 'reduce/*' 'conv/conv3x3_128*' 'conv/conv3x3_[56]*'
    'conv/[!c]*,conv/conv[17]*' 'pool/*' 'norm/[!a]*' 'norm/attention*' 'matmul/*f64,matmul/*tf32'
    'matmul/*bf16' 'matmul/matmul_[0-9]*[0-9]' 'matmul/*gelu*,matmul/*nt*' 'fit/XYNB_*'
    'fit/XYZNB*,fit/SPLINE*' 'train/*' 'batch/*')
  for shard in "${shards[@]}"; do
    if [[ -n $dry ]]; then
      act "${bench[@]}" --filter "$shard"
    else
      beside "$parts/bench-${shard//[^a-z0-9]/_}.log" "${bench[@]}" --filter "$shard"
    fi
  done
  [[ -z $dry ]] || call "${bench[@]}" --quick --filter add_1M
  if [[ -z $dry ]] && python_has numpy onnx; then
    for row in ${NETWORKS//,/ }; do
      beside "$parts/$row.log" python3 "$SETUP_ROOT/bench/peers/compare.py" --device cuda:0 \
        --build "$build" --suite network --rows "$row" --engines libcompute --rounds 1 --seconds 0
    done
  fi
  wait
  show_logs
}

step_environment() {
  {
    nvidia-smi --query-gpu=name,driver_version,memory.total,clocks.max.sm,clocks.max.mem --format=csv \
      2>/dev/null || echo "no nvidia-smi"
    { cc --version 2>/dev/null || echo "no C compiler"; } | head -1
    uname -mr
    python3 --version
    python_has torch && python3 -c 'import torch; print("torch", torch.__version__)'
    printf 'kernel cache: %s files before this step\n' "$(find "$COMPUTE_CACHE_DIR" -type f 2>/dev/null | wc -l)"
  } || true
  printf 'left out: %s\n' "${left_out[@]:-nothing}"
  sed -n '/^libcompute/p;/^Modules/,$p' <<<"$info"
}

step_checks() {
  needs cuda:0
  COMPUTE_TEST_SPREAD=$((20 * spread)) beside "$parts/conformance.log" \
    "$build/bin/compute-conformance" cuda:0
  ctests cuda:0 "${FIRST_TESTS[@]}"
  wait
  show_logs
}

step_transfers() {
  needs cuda:0
  bench transfers cuda:0 'pool_hit*' --suite memory,batch,fit
}

step_own() {
  needs cuda:0
  export COMPUTE_CUDA_LIBRARIES=none
  bench own cuda:0 matmul_64 --filter "$PRODUCTS,attention*,gelu_100M,*wino*"
}

step_networks() {
  needs cuda:0
  compare network "$NETWORKS" --engines libcompute,torch_graphs,torch_cl --json "$parts/networks.json"
}

step_bf16() {
  needs cuda:0
  compare bf16 '*' --engines libcompute,torch_graphs --json "$parts/bf16.json"
}

step_train() {
  needs cuda:0
  compare train '*' --engines libcompute,torch_graphs,torch --json "$parts/train.json"
}

# Models that are only ONNX files have no peer: compute-run times them.
step_forms() {
  local model file
  needs cuda:0
  compare operation "$FORMS" --engines libcompute,torch_max --json "$parts/forms.json"
  for model in "${FILE_MODELS[@]}"; do
    file=$build/peers/models/$model.onnx
    if [[ -n $dry || -e $file ]]; then
      act "$build/bin/compute-run" "$file" --device cuda:0 --bench 50
    else
      echo "left out: $model: there is no $file; bench/peers/networks.py makes it"
    fi
  done
}

step_opencl() {
  needs opencl:0
  bench opencl opencl:0 - --quick --suite matmul,elementwise,reduce,conv
}

# Runs a tool on a program, or only the program. Few samples: under a tool, a launch takes
# milliseconds.
watch() {
  local tool=$1 name=$2 command=() log
  log=$parts/sanitizer-$1-$2.log
  [[ $tool == none ]] || command=(compute-sanitizer --tool "$tool" --error-exitcode 9)
  if [[ $name == compute-conformance ]]; then
    command+=("$build/bin/$name" cuda:0)
  else
    command+=("$build/tests/bin/$name")
  fi
  beside "$log" env -C "$parts" COMPUTE_TEST_DEVICE=cuda:0 COMPUTE_TEST_SPREAD=400 "${command[@]}"
}

# The kernels are compiled beforehand, once for all tools.
step_sanitizer() {
  local tool name names=(operations_matmul operations_network compute-conformance) most=$((cores / 2 + 1))
  needs cuda:0
  if [[ -n $dry ]]; then
    echo "would run compute-sanitizer (memcheck, racecheck) on ${names[*]}"
    bench cpu cpu add_1M --filter "$SEEDS"
    return
  fi
  [[ -d $build/tests/bin ]] || skip "no tests were built"
  command -v compute-sanitizer >/dev/null || skip "compute-sanitizer is not installed"
  beside "$parts/cpu.log" "$build/bin/compute-bench" --device cpu --peers none --commit "$commit" \
    --json "$parts/cpu.json" --filter "$SEEDS"
  for name in "${names[@]}"; do watch none "$name"; done
  while (($(jobs -rp | wc -l) > 1)); do wait -n || true; done
  for tool in memcheck racecheck; do
    for name in "${names[@]}"; do watch "$tool" "$name"; done
  done
  wait
  show_logs
}

step_products() {
  local reason
  needs cuda:0
  if [[ -z $dry ]] && ! reason=$(torch_works); then
    echo "left out: cuBLASLt's fastest algorithm: $reason"
  else
    act python3 "$SETUP_ROOT/bench/peers/cublaslt.py" --json "$parts/cublaslt.json"
  fi
  bench products cuda:0 matmul_64 --suite matmul
}

step_rows() {
  needs cuda:0
  bench rows cuda:0 add_1M --suite overhead,elementwise,reduce,conv,pool,norm,routing
}

torch_rows() { # NAME ARG…
  local name=$1 reason
  shift
  needs cuda:0
  if [[ -z $dry ]]; then reason=$(torch_works) || skip "$reason"; fi
  act python3 "$SETUP_ROOT/bench/peers/torch_gpu.py" --json "$parts/$name.json" "$@"
}

step_torch() {
  torch_rows torch --compile max-autotune-no-cudagraphs --channels-last
}

step_eager() {
  torch_rows eager
}

step_tests() {
  local device
  needs cuda:0
  for device in ${devices[@]+"${devices[@]}"}; do ctests "$device" "${OTHER_TESTS[@]}"; done
}
