/* attach.h - prompts of other terminals on this program's Lua state: rille attach.
 *
 *   rille attach (attach.c)                       the controller (attached.c)
 *   H version, colours; its stdin, out, err  -->  Y what runs here, or N why not
 *   L number chunk                           -->  runs it between two instructions of its own program, with those three
 *                                                 as its own; M more lines are wanted, D done, Q it was :quit
 *   I                                        -->  stops that line, and nothing else
 *
 * A socket of packets, each a letter and text, in Linux's abstract names: nothing is left of it whoever dies. A name
 * there has no permissions, so both ends ask the kernel whose the other is: only the same user's, and root's, talk.
 * Main thread. */
#ifndef RILLE_SHELL_ATTACH_H
#define RILLE_SHELL_ATTACH_H

#include <lua.h>

#include <stddef.h>
#include <sys/types.h>

enum { ATTACH_MOST = 1 << 16, ATTACH_TITLE = 48, ATTACH_STREAMS = 3 };
/* Of the abstract name: user, process, title. */
#define ATTACH_NAME "rille-attach/%ld/%ld/%s"

/* attached.c: lets terminals in, where the program `title` runs on L, until the process ends. */
void attached_open(lua_State *L, const char *title);

/* attach.c: finds the controller of that name - its process's number or its title; NULL: the one that there is - and
 * connects. 0, or the exit code after the words about it. */
struct attach {
    int fd;
    char title[ATTACH_TITLE];
    long pid;
};
int attach_open(const char *name, struct attach *out);
/* The prompt, until the end of input; L has a session of its own, for what the editor knows of names. The exit code. */
int attach_run(lua_State *L, const struct attach *a);

/* Asks the kernel who the other end is; -1: nobody can say. */
long attach_user(int fd);

#endif
