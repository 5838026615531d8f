/* watch.h - reports of workers that hang (coordinator.c), are lost or have not joined. Owner: the cluster
 * (controller.h). Except for control_lose() and control_connect(), the functions are called with the cluster's lock
 * held, on the session's thread or on the cluster's own thread. */
#ifndef RILLE_CLUSTER_WATCH_H
#define RILLE_CLUSTER_WATCH_H

#include "actors/cluster/controller/controller_inner.h"

/* MEET_MS: time in which the session meets a loss by an error before a message reports it */
enum { TICK_MS = 100, MEET_MS = 1000 };

/* Collects the report of a member that was asked what it does. */
void control_report(struct cluster *c, const struct notice *n);
/* Handles NOTICE_HANG: begins to collect reports, or writes the reports for the user and into rille-hang-PID.txt. */
void control_hang(struct cluster *c, const struct notice *n);
/* Reports the workers that the controller waits for: first after REMIND_MS, then after intervals that double. */
void control_say_absent(struct cluster *c);
/* Returns E_LOST, with an error text that names the worker that was lost first. */
int control_say_lost(struct cluster *c);
/* Reports losses that the session has not met within MEET_MS, because the program does not use the workers. */
void control_say_unmet(struct cluster *c);
/* Declares a worker lost, because its answer about values did not arrive or makes no sense. Any thread; the function
 * takes the lock. */
void control_lose(void *of, int rank, const char *how);
/* Makes a worker replace the connection of its link for values. Any thread; the function takes the lock. */
void control_connect(void *of, int rank);
/* Reports a slow worker to the user, with its host and pid. */
void control_say_slow(struct cluster *c, const struct notice *n);

/* Appends the phase, the numbers of epoch and run, and for each worker a line with its state, the time without
 * progress and the act that it runs. May be called on any thread, also during a run. */
void cluster_status(struct cluster *c, struct str *out);

/* Returns in *losses the number of workers lost so far, and in *recoveries the number of recoveries. May be called
 * on any thread, also during a run. */
void cluster_totals(struct cluster *c, int64_t *losses, int64_t *recoveries);

#endif
