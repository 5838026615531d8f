/* train.h - learns a vocabulary from texts. The caller owns the trainer. */
#ifndef RILLE_RUNTIME_TEXT_TRAIN_H
#define RILLE_RUNTIME_TEXT_TRAIN_H

#include "runtime/text/tokenizer.h"

/* Learns a vocabulary from texts that are added one by one. size: number of ids; the last ids are those of the
 * special tokens. If the texts yield too few pairs, the remaining ids are reserved: "<|reserved_0|>" and so on. */
struct trainer;
struct trainer *trainer_new(const char *pattern, int nspecial, const char *const *special);
void trainer_free(struct trainer **r);
int trainer_add(struct trainer *r, const void *text, size_t n);
int trainer_end(struct trainer *r, uint32_t size, struct tokenizer **out);

#endif
