/* signals.h - blocks signals while a thread computes.
 *
 * The AVX-512 products of oneDNN 2.6 keep values below the stack pointer, beyond the red zone of the ABI, where
 * the frame of a signal handler would overwrite them. Helper threads of a kernel must not handle signals, either.
 * Blocking and unblocking costs two system calls, half a microsecond in total, which is as long as a small
 * product. So a computing thread blocks signals from its first product or first use of helpers on. The thread
 * unblocks signals before it waits, and at the end of a run or of a kernel called alone. If signals have been
 * blocked for a millisecond, it also unblocks them after a product, after work with helpers, and when it polls for
 * cancellation. All functions act on the calling thread. */
#ifndef RILLE_RUNTIME_SIGNALS_H
#define RILLE_RUNTIME_SIGNALS_H

/* Blocks signals for this thread and for threads that it starts afterwards. Signals for the thread's own faulty
 * instructions stay unblocked. */
void signals_hold(void);
/* Unblocks signals, if this thread has blocked them. */
void signals_pass(void);
/* Unblocks signals if this thread has blocked them for at least a millisecond. */
void signals_pass_in_time(void);

#endif
