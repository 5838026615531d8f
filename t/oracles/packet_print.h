/* packet_print.h - prints a packet as text, for comparisons: two packets are equal if their texts are. Pure; any
 * thread. */
#ifndef RILLE_ORACLES_PACKET_PRINT_H
#define RILLE_ORACLES_PACKET_PRINT_H

#include "actors/cluster/wire/wire.h"

/* Appends a text like "HELLO 3.1 pid=7 host=a ...". Prints only the length of lists of bytes and numbers. */
void packet_print(const struct packet *p, struct str *out);

#endif
