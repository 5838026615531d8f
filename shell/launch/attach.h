/* attach.h - rille attach: prompts from other terminals on this program's Lua state.
 *
 *   rille attach (attach.c)                       the controller (attached.c)
 *   H version, colours; its stdin, out, err  -->  Y title of the program, or N reason for the refusal
 *   L number chunk                           -->  runs the chunk between two instructions of its own program, on these
 *                                                 streams; M more lines are needed, D done, Q the chunk was :quit
 *   I                                        -->  stops that chunk, and nothing else
 *   S (rille status)                         -->  T text: what the workers do; a thread answers, also during a run
 *
 * A packet socket in Linux's abstract namespace; each packet is a letter and text. The name vanishes with the
 * process that bound it. Abstract names have no permissions, and containers share them with the host's network. So both
 * ends ask the kernel for the peer: only processes of the same user, in the same pid and user namespaces, may connect.
 * Main thread. */
#ifndef RILLE_SHELL_ATTACH_H
#define RILLE_SHELL_ATTACH_H

#include <lua.h>

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum { ATTACH_MOST = 1 << 16, ATTACH_TITLE = 48, ATTACH_STREAMS = 3 };
/* Abstract socket name: user id, process id, title. */
#define ATTACH_NAME "rille-attach/%ld/%ld/%s"

/* Finds the controller by process number or title (NULL: the only one) and connects. Returns 0, or the
 * exit code after printing the error. */
struct attach {
    long user, pid;
    char title[ATTACH_TITLE];
    int fd; /* socket connected to the controller */
};
int attach_open(const char *name, struct attach *out);
/* rille status: prints what the workers of a controller do. Returns the exit code. */
int attach_status(const char *name);
/* Runs the prompt until the end of input; returns the exit code. L has a session of its own, from which the editor
 * completes names. */
int attach_run(lua_State *L, const struct attach *a);

#endif
