/* SPDX-License-Identifier: MIT */
/* A plugin of qemu-user that counts a program's instructions, and prints their number at its end.
 * Debian's qemu-user loads plugins, but has no header for them; these are the used declarations. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define PUBLIC __attribute__((visibility("default")))

typedef uint64_t plugin_id;
struct qemu_plugin_tb;

size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *block);
void qemu_plugin_register_vcpu_tb_trans_cb(plugin_id id,
                                           void (*call)(plugin_id, struct qemu_plugin_tb *));
void qemu_plugin_register_vcpu_tb_exec_inline(struct qemu_plugin_tb *block, int operation,
                                              void *counter, uint64_t step);
void qemu_plugin_register_atexit_cb(plugin_id id, void (*call)(plugin_id, void *), void *data);

enum { ADD = 0 }; /* QEMU_PLUGIN_INLINE_ADD_U64 */

static uint64_t count;

static void translate(plugin_id id, struct qemu_plugin_tb *block) {
  (void)id;
  qemu_plugin_register_vcpu_tb_exec_inline(block, ADD, &count, qemu_plugin_tb_n_insns(block));
}

static void report(plugin_id id, void *data) {
  (void)id, (void)data;
  fprintf(stderr, "instructions %llu\n", (unsigned long long)count);
}

PUBLIC extern int qemu_plugin_version;
PUBLIC int qemu_plugin_version = 1;
PUBLIC int qemu_plugin_install(plugin_id id, const void *info, int count_of, char **arguments);
PUBLIC int qemu_plugin_install(plugin_id id, const void *info, int count_of, char **arguments) {
  (void)info, (void)count_of, (void)arguments;
  qemu_plugin_register_vcpu_tb_trans_cb(id, translate);
  qemu_plugin_register_atexit_cb(id, report, NULL);
  return 0;
}
