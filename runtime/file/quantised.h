/* quantised.h - reads weights that a checkpoint stores as more than one tensor: low-bit numbers, scales, and zero
 * points.
 *
 * tensors_dequantise() replaces the tensors of each such weight by one entry, the weight in f32. Reading a box of
 * the entry reads only the parts of the tensors that the box needs. The values are the exact products of numbers and
 * scales, rounded once to f32. One thread, like struct tensors. */
#ifndef RILLE_RUNTIME_FILE_QUANTISED_H
#define RILLE_RUNTIME_FILE_QUANTISED_H

#include "runtime/file/tensors.h"

enum { QUANTISED_PARTS = 7 };

struct quantised {
    const char *method; /* "gptq" */
    int (*read)(struct tensors *f, const struct entry *e, const struct box *b,
                float *out);             /* reads a box of the weight */
    struct entry *part[QUANTISED_PARTS]; /* tensors of the weight; NULL: absent */
    int32_t bits;                        /* bits per number */
    int64_t group;                       /* number of inputs that share a scale */
    int64_t block[MAX_DIM];              /* sizes of the blocks that share a scale, for method "scaled" */
    bool minus_one;                      /* true: the file stores each zero point minus 1 */
    /* number of scales that share a second scale, for method "bnb4"; 0: scales are stored as floats */
    int64_t nested;
    float offset; /* number added to each scale, for method "bnb4" with nested > 0 */
};

/* How a checkpoint is quantised. method, and its tensors:
 *   "scaled"  X.weight, X.weight_scale or X.weight_scale_inv: one scale per block, per row, or for the whole weight
 *   "mxfp4"   X_blocks, X_scales: 32 numbers of 4 bits share a power of two; the weight is transposed
 *   "gptq"    X.qweight, X.qzeros, X.scales, X.g_idx (optional)
 *   "awq"     X.qweight, X.qzeros, X.scales
 *   "bnb4"    X.weight, X.weight.absmax, X.weight.quant_map and more (bitsandbytes, nf4 and fp4)
 *   "bnb8"    X.weight, X.SCB (bitsandbytes, LLM.int8)
 *   "blocks"  keeps X, and adds X.blocks, u8 (..., blocks, bytes of a block), if X is stored in blocks (GGUF) */
struct quantisation {
    const char *method;
    int32_t bits;
    /* number of inputs that share a scale, for methods "gptq" and "awq"; -1: all inputs */
    int64_t group;
    /* size of a block that shares a scale, for method "scaled"; 0: a scale for each row, or one for the whole
     * weight */
    int64_t rows, columns;
    bool minus_one; /* true: the file stores each zero point minus 1, for method "gptq" */
};
/* Replaces the tensors of each quantised weight by the weight. E_ARG: unknown method. E_IO: tensors of a weight
 * are missing, or do not fit together. */
int tensors_dequantise(struct tensors *f, const struct quantisation *q);

#endif
