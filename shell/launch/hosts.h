/* hosts.h - parses the hosts of a job and the workers on each: one grammar for all notations.
 *
 *   a  a:4  user@a  node[01-03,07]:2  10.0.0.1  [fe80::1]:4  ::1         number of workers after a colon
 *   ssh://user@a:2222  ssh://a:2222:4                                    a first number is the ssh port
 *   a slots=4 max_slots=8                                                words after blanks, also "max-slots"
 *
 * Hosts are separated by commas or newlines; # begins a comment. Brackets have Slurm's meaning: leading zeros are
 * kept; two or more brackets form a product, in which the first bracket varies slowest. A host without a number has
 * one worker; repeating a host adds workers. Names consist of letters, digits and "-._", and never begin with "-", so
 * no name is an option of ssh. Pure; any thread. */
#ifndef RILLE_SHELL_HOSTS_H
#define RILLE_SHELL_HOSTS_H

#include <stddef.h>

enum { HOSTS_MOST = 256, HOST_SLOTS_MOST = 1 << 16, HOST_NAME = 128, HOST_ERROR = 200 };

struct host {
    char user[64];        /* user name; "": ssh's default */
    char name[HOST_NAME]; /* host name or address; IPv6 without brackets */
    int port;             /* ssh port; 0: ssh's default */
    int slots, most;      /* slots: number of workers; most: max_slots; 0: not given */
};
struct hosts { /* hosts in the order of their first occurrence */
    int n, slots;
    struct host host[HOSTS_MOST];
};
struct hosts_error {
    int line, column; /* position of the error, from 1; columns are bytes */
    char text[HOST_ERROR];
};

/* Parses n bytes of text into the caller's *out. Non-zero: *error has the first error, and *out is undefined. */
int hosts_parse(const char *text, size_t n, struct hosts *out, struct hosts_error *error);

#endif
