/* engine_inner.h - functions of engine.c that other files of this folder call, on the worker's own thread. */
#ifndef RILLE_ACT_ENGINE_INNER_H
#define RILLE_ACT_ENGINE_INNER_H

#include "actors/act/run/actor.h"

/* Returns true if the run may overwrite variables from now on; false if the run was cancelled first. */
bool worker_may_update(struct worker *w);
/* Lets kernels on this thread poll whether the run was asked to stop. */
void worker_ask(struct worker *w);
/* Fails the run on this worker with the error text in err_text(); the worker starts no more acts. */
void worker_fail(struct worker *w, int status);
/* Wakes worker `of` after one of its streams has completed work. Called on the stream's thread. */
void worker_told(void *of);
/* engine_first returns the session's thread as a worker; engine_interrupts returns the flag that an interrupt sets. */
struct worker *engine_first(const struct engine *e);
atomic_int *engine_interrupts(struct engine *e);
/* Sends a message to the worker of another thread of the plan. */
void worker_send(struct worker *w, int to, struct msg m);
/* Sends a message to an address, which may belong to another process. */
void worker_send_to(struct worker *w, uint32_t addr, struct msg m);

#endif
