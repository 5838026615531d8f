/* activity.h - reports what a device thread does, and charges the thread's time to devices. The functions that print
 * text are async-signal-safe. */
#ifndef RILLE_ACT_ACTIVITY_H
#define RILLE_ACT_ACTIVITY_H

#include "actors/act/run/actor.h"

/* Prints a task of a run: "matmul (a.lua:3)"; on a device with streams, "matmul (a.lua:3) on async:0".
 * Async-signal-safe. */
void activity_print(const struct plan *p, const struct run *r, int32_t task, char *text, size_t size);
/* Publishes, for signal handlers, that the thread is about to wait for stream f; NULL: for any stream. */
void activity_await(struct worker *w, const struct flow *f);
void activity_await_nothing(struct worker *w);
/* Prints the task that the thread computes. If the thread only waits for stream work, prints the task of that work;
 * "": none. */
void activity_thread(const struct worker *w, char *text, size_t size);
/* Records, in the thread's flight recorder, the thread's first task that waits for another thread. Called on the
 * thread itself. */
void activity_record_wait(struct worker *w);
/* Prints the thread's first actor that waits for a task of another thread, and that task; "": none. */
void activity_waiting(const struct run *r, int thread, char *text, size_t size);

/* Begins to charge the time of a thread to a device, at the start of a run. The session's thread starts the run and
 * works at once on its first device. That device is charged from the run's start, so the clock is not read again. */
void activity_bill_start(struct worker *w);
/* Charge the thread's time from now on to this plan device; -1: to no device. now: time of the clock, ns.
 * activity_bill reads the clock only if the device changes. */
void activity_bill(struct worker *w, int32_t device);
void activity_bill_at(struct worker *w, int32_t device, int64_t now);

#endif
