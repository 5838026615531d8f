/* verify_program.h - proves that a program is legal: operands, types, signatures. The caller's thread. */
#ifndef RILLE_ACTORS_PLAN_VERIFY_VERIFY_PROGRAM_H
#define RILLE_ACTORS_PLAN_VERIFY_VERIFY_PROGRAM_H

#include <stddef.h>

struct atlas;
struct program;
struct proof;

/* Reads a program from untrusted bytes. Accepts only bytes that program_write() would write, and only legal
 * programs. Interns placements and layouts in the atlas. E_PLAN names the byte or the node of the error; *out is
 * then NULL. */
int program_read(const char *bytes, size_t n, struct atlas *at, struct program **out);
int prove_program(struct proof *v);

#endif
