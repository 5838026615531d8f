/* packet_print.h - prints a packet: two packets are equal if their texts are. Pure; any thread. */
#ifndef RILLE_ORACLES_PACKET_PRINT_H
#define RILLE_ORACLES_PACKET_PRINT_H

#include "actors/cluster/wire/wire.h"

/* Appends "HELLO 3.1 pid=7 host=a ...". Of lists of bytes and numbers it prints the length only. */
void packet_print(const struct packet *p, struct str *out);

#endif
