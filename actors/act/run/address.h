/* address.h - addresses of registers, of the arguments of acts, and of a run's numbers. Pure. */
#ifndef RILLE_ACT_ADDRESS_H
#define RILLE_ACT_ADDRESS_H

#include "actors/act/run/run.h"

struct worker;

/* Returns the bytes that a run needs on a device: the arena, and behind it the number operands if the device cannot
 * read host memory. */
int64_t run_arena_bytes(const struct plan *p, int device);
/* Sets *at to the numbers behind the arena and returns their bytes; 0: the numbers are in host memory only. */
size_t run_numbers(const struct run *r, int device, void **at);
/* Fills in the addresses of an act whose plan, task and piece are set; `address` provides the storage. */
void act_address(const struct worker *w, struct act *a, void **address);
/* Returns the address of register `reg` of a result, for the act on micro-batch `piece`. The only code that computes
 * register addresses. */
char *reg_address(const struct run *r, const struct where *w, int reg, int piece);

#endif
