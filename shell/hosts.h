/* hosts.h - which hosts a job has, and how many workers each: one grammar for every spelling of a list.
 *
 *   a  a:4  user@a  node[01-03,07]:2  10.0.0.1  [fe80::1]:4  ::1         a number behind a colon counts workers
 *   ssh://user@a:2222  ssh://a:2222:4                                    here the first one is ssh's port
 *   a slots=4 max_slots=8                                                words behind blanks, "max-slots" as well
 *
 * Hosts stand between commas or on lines; # begins a comment. Brackets are Slurm's: leading zeros count, several are a
 * product, the first the slowest. Without a number a host has one worker; named again it has more. Names are of
 * letters, digits and "-._", never beginning with "-", so that none is an option of ssh. Pure; any thread. */
#ifndef RILLE_SHELL_HOSTS_H
#define RILLE_SHELL_HOSTS_H

#include <stddef.h>

enum { HOSTS_MOST = 256, HOST_SLOTS_MOST = 1 << 16, HOST_NAME = 128, HOST_ERROR = 200 };

struct host {
    char user[64];        /* "": ssh's own choice */
    char name[HOST_NAME]; /* of an IPv6 address without brackets */
    int port;             /* of ssh; 0: its own choice */
    int slots, most;      /* workers, and how many at most; most 0: the list does not say */
};
struct hosts { /* in the order in which the list first names them */
    int n, slots;
    struct host host[HOSTS_MOST];
};
struct hosts_error {
    int line, column; /* from 1; columns are bytes */
    char text[HOST_ERROR];
};

/* Reads n bytes of text into the caller's *out. Non-zero: *error tells the first thing that is wrong, and *out is of no
 * use. */
int hosts_parse(const char *text, size_t n, struct hosts *out, struct hosts_error *error);

#endif
