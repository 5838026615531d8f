/* bus.c - functions that work for every kind of bus. */
#include "actors/act/bus/bus.h"
#include "runtime/base/error.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Parses an unsigned number of decimal digits. Returns false if the text has other characters or the number needs
 * more than 64 bits. */
static bool
parse_seed(const char *text, uint64_t *seed)
{
    size_t digits = strspn(text, "0123456789");
    if (!digits || text[digits]) return false;
    errno = 0;
    *seed = strtoull(text, NULL, 10);
    return errno == 0;
}

int
bus_parse(const char *text, const struct bus_kind **kind, uint64_t *seed)
{
    *seed = 0;
    if (!strcmp(text, "zmq")) {
        *kind = &bus_zmq;
        return 0;
    }
    if (!strncmp(text, "sim:", 4) && parse_seed(text + 4, seed)) {
        *kind = &bus_sim;
        return 0;
    }
    return fail(E_ARG, "bus (RILLE_BUS) must be zmq or sim:SEED with an integer SEED, found '%s'", text);
}
