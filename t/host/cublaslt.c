/* cublaslt.c - a cuBLASLt stand-in for hosts without GPUs, next to toolkit.c: the functions that the plug-in calls,
 * declared by the real header.
 *
 * A product is queued like a kernel launch, and computed when a thread waits for the launch (toolkit.c). With
 * FAKE_CUDA=noway no product has an algorithm. Word i of a descriptor stores attribute i. The descriptor of a
 * product also stores the compute type in word COMPUTE and the scale type in word SCALE. */
#include "t/host/reals.h"
#include "t/host/toolkit.h"

#include <cublasLt.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

struct product {
    cublasLtMatmulDescOpaque_t d;
    cublasLtMatrixLayoutOpaque_t al, bl, yl;
    const void *a, *b;
    void *y, *scratch;
};

enum { COMPUTE = 30, SCALE = 31, ATTRIBUTES = 30, SCRATCH = 4096 };
struct cublasLtContext {
    int gpu;
};

size_t
cublasLtGetVersion(void)
{
    return CUBLAS_VERSION;
}

const char *
cublasLtGetStatusString(cublasStatus_t s)
{
    return s == CUBLAS_STATUS_EXECUTION_FAILED ? "the GPU failed to execute" : "a mistake of the caller";
}

cublasStatus_t
cublasLtCreate(cublasLtHandle_t *h)
{
    *h = calloc(1, sizeof **h);
    (*h)->gpu = fake_current();
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t
set(uint64_t *word, int n, int what, const void *value, size_t bytes)
{
    if (bytes > sizeof *word) return CUBLAS_STATUS_INVALID_VALUE;
    if (what >= n) return CUBLAS_STATUS_SUCCESS;
    word[what] = 0;
    memcpy(&word[what], value, bytes);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t
cublasLtMatmulDescInit_internal(cublasLtMatmulDesc_t d, size_t size, cublasComputeType_t compute, cudaDataType_t scale)
{
    memset(d, 0, size);
    d->data[COMPUTE] = compute;
    d->data[SCALE] = scale;
    d->data[CUBLASLT_MATMUL_DESC_EPILOGUE] = CUBLASLT_EPILOGUE_DEFAULT;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t
cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t d, cublasLtMatmulDescAttributes_t what, const void *v, size_t n)
{
    return set(d->data, ATTRIBUTES, what, v, n);
}

cublasStatus_t
cublasLtMatrixLayoutInit_internal(cublasLtMatrixLayout_t l, size_t size, cudaDataType type, uint64_t rows,
                                  uint64_t cols, int64_t ld)
{
    memset(l, 0, size);
    l->data[CUBLASLT_MATRIX_LAYOUT_TYPE] = type;
    l->data[CUBLASLT_MATRIX_LAYOUT_ROWS] = rows;
    l->data[CUBLASLT_MATRIX_LAYOUT_COLS] = cols;
    l->data[CUBLASLT_MATRIX_LAYOUT_LD] = (uint64_t)ld;
    l->data[CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT] = 1;
    return ld >= (int64_t)rows ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t
cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t l, cublasLtMatrixLayoutAttribute_t what, const void *v,
                                 size_t n)
{
    return set(l->data, 8, what, v, n);
}

cublasStatus_t
cublasLtMatmulPreferenceInit_internal(cublasLtMatmulPreference_t p, size_t size)
{
    memset(p, 0, size);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t
cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t p, cublasLtMatmulPreferenceAttributes_t what,
                                     const void *v, size_t n)
{
    return set(p->data, 8, what, v, n);
}

/* Writes an epilogue as text, for example "bias+gelu+aux". */
static const char *
epilogue_text(uint64_t e, char *text)
{
    bool slope = e == CUBLASLT_EPILOGUE_DGELU;
    snprintf(text, 32, "%s%s%s", e & CUBLASLT_EPILOGUE_BIAS ? "+bias" : "", e & CUBLASLT_EPILOGUE_GELU ? "+gelu" : "",
             slope     ? "+slope"
             : e & 128 ? "+aux"
                       : "");
    return *text ? text + 1 : "plain";
}

/* Finds an algorithm for a product. A product of f64 with gelu has none. Fails the test if the caller permits
 * reductions in an unspecified order. */
cublasStatus_t
cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t h, cublasLtMatmulDesc_t d, cublasLtMatrixLayout_t a,
                               cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t y,
                               cublasLtMatmulPreference_t p, int n, cublasLtMatmulHeuristicResult_t *found, int *nfound)
{
    char text[32];
    uint64_t e = d->data[CUBLASLT_MATMUL_DESC_EPILOGUE];
    bool none = d->data[SCALE] == CUDA_R_64F && e >= CUBLASLT_EPILOGUE_GELU;
    (void)b, (void)c, (void)n;
    if (p->data[CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK] != CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE ||
        p->data[CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES] != 16 || h->gpu != fake_current())
        return CUBLAS_STATUS_INVALID_VALUE;
    fake_log(
        "choose gpu %d %ldx%ldx%ld type %ld %s\n", fake_current(), (long)y->data[CUBLASLT_MATRIX_LAYOUT_COLS],
        (long)y->data[CUBLASLT_MATRIX_LAYOUT_ROWS],
        (long)a->data[d->data[CUBLASLT_MATMUL_DESC_TRANSA] ? CUBLASLT_MATRIX_LAYOUT_ROWS : CUBLASLT_MATRIX_LAYOUT_COLS],
        (long)y->data[CUBLASLT_MATRIX_LAYOUT_TYPE], epilogue_text(e, text));
    *nfound = none || fake_is_said("noway") ? 0 : 1;
    found->state = CUBLAS_STATUS_SUCCESS;
    found->workspaceSize = SCRATCH;
    return *nfound ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

/* Returns the index of element (i, j) of matrix `batch`. */
static int64_t
at(const cublasLtMatrixLayoutOpaque_t *l, int64_t batch, int64_t i, int64_t j)
{
    return batch * (int64_t)l->data[CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET] + i +
           j * (int64_t)l->data[CUBLASLT_MATRIX_LAYOUT_LD];
}

static double
gelu(double v, bool slope)
{
    double scale = sqrt(2 / M_PI), t = tanh(scale * (v + 0.044715 * v * v * v));
    return slope ? (1 + t) / 2 + v / 2 * (1 - t * t) * scale * (1 + 3 * 0.044715 * v * v) : v / 2 * (1 + t);
}

/* Applies the epilogue to the sum v of element (i, j). */
static double
finish(const cublasLtMatmulDescOpaque_t *d, uint64_t type, int64_t i, int64_t j, double v)
{
    uint64_t e = d->data[CUBLASLT_MATMUL_DESC_EPILOGUE];
    void *aux = (void *)d->data[CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER];
    int64_t place = i + j * (int64_t)d->data[CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD];
    if (e == CUBLASLT_EPILOGUE_DGELU) return v * gelu(real_get(type, aux, place), true);
    if (e & CUBLASLT_EPILOGUE_BIAS) v += real_get(type, (void *)d->data[CUBLASLT_MATMUL_DESC_BIAS_POINTER], i);
    if (e & 128) real_put(type, aux, place, v);
    return e & CUBLASLT_EPILOGUE_GELU ? gelu(v, false) : v;
}

static double
rounded(const cublasLtMatmulDescOpaque_t *d, double v)
{
    return d->data[COMPUTE] == CUBLAS_COMPUTE_32F_FAST_TF32 ? real_tf32(v) : v;
}

static bool
computes(uint64_t compute, bool doubles, uint64_t type)
{
    if (compute == CUBLAS_COMPUTE_32F_FAST_TF32) return type == CUDA_R_32F;
    return compute == (doubles ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F);
}

static cudaError_t
compute_product(void *of)
{
    struct product *p = of;
    const cublasLtMatmulDescOpaque_t *d = &p->d;
    uint64_t type = p->yl.data[CUBLASLT_MATRIX_LAYOUT_TYPE], from = p->al.data[CUBLASLT_MATRIX_LAYOUT_TYPE];
    int64_t rows = (int64_t)p->yl.data[CUBLASLT_MATRIX_LAYOUT_ROWS];
    int64_t cols = (int64_t)p->yl.data[CUBLASLT_MATRIX_LAYOUT_COLS];
    bool ta = d->data[CUBLASLT_MATMUL_DESC_TRANSA], tb = d->data[CUBLASLT_MATMUL_DESC_TRANSB];
    int64_t k = (int64_t)p->al.data[ta ? CUBLASLT_MATRIX_LAYOUT_ROWS : CUBLASLT_MATRIX_LAYOUT_COLS];
    memset(p->scratch, 0x55, SCRATCH);
    for (int64_t e = 0; e < rows * cols * (int64_t)p->yl.data[CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT]; e++) {
        int64_t i = e % rows, j = e / rows % cols, n = e / rows / cols;
        double v = 0;
        for (int64_t l = 0; l < k; l++)
            v += rounded(d, real_get(from, p->a, at(&p->al, n, ta ? l : i, ta ? i : l))) *
                 rounded(d, real_get(from, p->b, at(&p->bl, n, tb ? j : l, tb ? l : j)));
        real_put(type, p->y, at(&p->yl, n, i, j), finish(d, type, i, j, v));
    }
    return cudaSuccess;
}

cublasStatus_t
cublasLtMatmul(cublasLtHandle_t h, cublasLtMatmulDesc_t d, const void *alpha, const void *a, cublasLtMatrixLayout_t al,
               const void *b, cublasLtMatrixLayout_t bl, const void *beta, const void *c, cublasLtMatrixLayout_t cl,
               void *y, cublasLtMatrixLayout_t yl, const cublasLtMatmulAlgo_t *algo, void *scratch, size_t bytes,
               cudaStream_t stream)
{
    char text[32];
    bool doubles = d->data[SCALE] == CUDA_R_64F;
    bool one = doubles ? *(const double *)alpha == 1 && *(const double *)beta == 0
                       : *(const float *)alpha == 1 && *(const float *)beta == 0;
    uintptr_t bits = (uintptr_t)a | (uintptr_t)b | (uintptr_t)y | d->data[CUBLASLT_MATMUL_DESC_BIAS_POINTER] |
                     d->data[CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER];
    (void)c, (void)cl, (void)algo;
    if (!one || bits % 16 || (uintptr_t)scratch % 256 || bytes != SCRATCH || !scratch || h->gpu != fake_current() ||
        stream != cudaStreamPerThread || !computes(d->data[COMPUTE], doubles, al->data[CUBLASLT_MATRIX_LAYOUT_TYPE]))
        return CUBLAS_STATUS_INVALID_VALUE;
    fake_log("multiply gpu %d %s\n", fake_current(), epilogue_text(d->data[CUBLASLT_MATMUL_DESC_EPILOGUE], text));
    struct product p = {*d, *al, *bl, *yl, a, b, y, scratch};
    return fake_put_off(compute_product, &p, sizeof p) ? CUBLAS_STATUS_EXECUTION_FAILED : CUBLAS_STATUS_SUCCESS;
}
