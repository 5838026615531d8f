/* signals.h - stretches in which a thread takes no signals.
 *
 * oneDNN 2.6 keeps values below the end of the stack in its products for AVX-512,
 * farther than the ABI has it: the frame of a handler would be written over them.
 * To hold signals and let them pass again takes two system calls, half a
 * microsecond, as long as a small product. So a thread that computes holds them
 * from its first product on and lets them pass now and then: after a millisecond,
 * before it waits, when somebody asks whether its work is still wanted, and when
 * a run or a kernel that was called by itself ends. What they are about is the calling thread. */
#ifndef RILLE_RUNTIME_SIGNALS_H
#define RILLE_RUNTIME_SIGNALS_H

/* From now on this thread takes none but those that its own instructions raise, nor do threads that begin meanwhile. */
void signals_hold(void);
/* They pass again, if they were held here; */
void signals_pass(void);
/* the same where they have been held for a millisecond. */
void signals_pass_in_time(void);

#endif
