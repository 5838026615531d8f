/* cost.h - costs of moves and rates of computing, built in or from a file. Pure, except for reading the file. */
#ifndef RILLE_SESSION_COST_H
#define RILLE_SESSION_COST_H

#include "actors/plan/model/rates.h"

struct box_cost;
/* Reads costs of moves and rates of computing from the file `path`. path NULL: returns the built-in costs. */
int cost_read(const char *path, struct box_cost *out, struct compute_rates *rates);

#endif
