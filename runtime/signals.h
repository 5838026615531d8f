/* signals.h - stretches in which a thread takes no signals.
 *
 * oneDNN 2.6 keeps values below the end of the stack in its products for AVX-512, farther than the ABI has it: the
 * frame of a handler would overwrite them. And threads that a kernel's team starts take none, whoever started them.
 * Holding signals and letting them pass again takes two system calls, half a microsecond, as long as a small product.
 * So a thread that computes holds them from its first product or team on and lets them pass now and then: before it
 * waits, when a run or a kernel that somebody called by itself ends, and, where it has held them for a millisecond,
 * after a product, after what a team did, and when it asks whether its work is still wanted. All functions are about
 * the calling thread. */
#ifndef RILLE_RUNTIME_SIGNALS_H
#define RILLE_RUNTIME_SIGNALS_H

/* From now on this thread, and threads that it starts meanwhile, take no signals but those that their own instructions
 * raise. */
void signals_hold(void);
/* Lets them pass again, if this thread holds them; */
void signals_pass(void);
/* the same where it has held them for a millisecond. */
void signals_pass_in_time(void);

#endif
