/* program_bytes.h - serialises a program to bytes and back. Pure; any thread. */
#ifndef RILLE_ACTORS_PLAN_MODEL_PROGRAM_BYTES_H
#define RILLE_ACTORS_PLAN_MODEL_PROGRAM_BYTES_H

#include "actors/plan/model/program.h"

/* Appends the program to s as canonical bytes: equal programs give equal bytes in any process. Placements and
 * layouts are written by content, operators by name; source lines and names of composites are omitted. */
void program_write(const struct program *p, struct str *s);
/* Reads a program from untrusted bytes. Does not check whether the program is legal; program_read() (verify_program.h)
 * does. Interns placements and layouts in the atlas. E_PLAN names the byte of the error; *out is then NULL. */
int program_parse(const char *bytes, size_t n, struct atlas *at, struct program **out);
/* Checks that `bytes` is the only valid encoding of a legal program: writing the program again must yield the
 * same bytes. E_PLAN. */
int program_check_form(const struct program *p, const char *bytes, size_t n);

#endif
