/* coding.h - converts values of types that exist only in files, not as a dtype of Rille; a file stores such values
 * in blocks.
 *
 * A block has a fixed number of elements and of bytes. 8-bit and unsigned numbers are blocks of one element; the
 * quantised types of GGUF have blocks of 32 to 256. Plain numbers are converted to a dtype that holds each value
 * exactly. Quantised blocks are converted to the f32 values that the type's definition prescribes. The number of
 * elements of a block is a power of two, at most 256; a block has at most 8 bytes per element. Pure functions; any
 * thread. */
#ifndef RILLE_RUNTIME_FILE_CODING_H
#define RILLE_RUNTIME_FILE_CODING_H

#include "runtime/tensor/type.h"

struct coding {
    const char *name;                            /* name of the type in files: "Q4_K" */
    uint8_t dtype;                               /* dtype of decoded values */
    int16_t elements, bytes;                     /* size of a block: number of elements, and bytes */
    void (*block)(const uint8_t *p, float *out); /* decodes one block to f32; NULL: numbers() decodes */
    /* Decodes n blocks. Returns false if the dtype cannot hold a value. */
    bool (*numbers)(const uint8_t *p, int64_t n, void *out);
};
/* Returns the coding with this name; NULL: there is none. */
const struct coding *coding_find(const char *name);
/* Decodes n blocks. Returns false if the dtype cannot hold a value. */
bool coding_decode(const struct coding *c, const uint8_t *p, int64_t n, void *out);

/* Tables of codings: numbers of plain types (coding.c), and blocks of GGUF (coding_blocks.c, coding_grids.c). Each ends
 * with a row without a name. */
extern const struct coding coding_numbers[], coding_blocks[], coding_grids[];

/* Convert a number of a small format to f32, exactly. */
float coding_f16(const uint8_t *p);
float coding_small(uint32_t bits, int exponent_bits, int mantissa_bits, int bias);

#endif
