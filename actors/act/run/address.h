/* address.h - addresses of registers, of the arguments of acts, and of a run's live numbers. Pure. */
#ifndef RILLE_ACT_ADDRESS_H
#define RILLE_ACT_ADDRESS_H

#include "actors/act/run/run.h"

struct worker;

/* Returns the bytes that a run needs on a device: the arena, and the live numbers after it if the device cannot
 * read host memory. */
int64_t run_arena_bytes(const struct plan *p, int device);
/* Sets *at to the address of the live numbers after the device's arena, and returns their size, bytes. 0: the
 * device reads the live numbers in host memory. */
size_t run_numbers(const struct run *r, int device, void **at);
/* Sets the addresses of the arguments and results of an act. The fields plan, task and piece of the act are already
 * set. address: storage for the addresses. */
void act_address(const struct worker *w, struct act *a, void **address);
/* Returns the address of register `reg` of a result that is stored at w, for the act on micro-batch `piece`. This is
 * the only function that computes addresses of registers. */
char *reg_address(const struct run *r, const struct where *w, int reg, int piece);

#endif
