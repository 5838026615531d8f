/* must.h - calls that must succeed while a test or benchmark is set up. A failure ends the program with the error
 * message. */
#ifndef RILLE_T_MUST_H
#define RILLE_T_MUST_H

#include "rille.h"

#include <stdio.h>
#include <stdlib.h>

static inline void
must(int status, const char *what)
{
    if (!status) return;
    printf("Bail out! %s: %s\n", what, rille_error());
    exit(1);
}

#endif
