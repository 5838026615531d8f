/* front_workers.h - options that state workers, hosts and permitted losses. Main thread. */
#ifndef RILLE_SHELL_LAUNCH_FRONT_WORKERS_H
#define RILLE_SHELL_LAUNCH_FRONT_WORKERS_H

struct hosts;
struct rille_workers;

/* Reads an integer; non-zero: the text is no integer from least to most. */
int front_integer(const char *text, int least, int most, int *out);
/* Reads a number of workers, "4", or the smallest and the largest number of an elastic job, "2:4". Returns 0 or an
 * exit code, after printing the error. */
int front_workers(const char *option, const char *text, int most, struct rille_workers *w);
/* Reads the value of --restarts, N:SECONDS; NULL: not given. Returns 0 or an exit code. */
int front_restarts(const char *text, struct rille_workers *w);

/* Reads a list of hosts, or the file at `path` if the list is NULL; non-zero after printing the error.
 */
int hosts_read(const char *list, const char *path, struct hosts *out);

#endif
