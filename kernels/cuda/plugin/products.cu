/* products.cu - runs matrix products with cuBLASLt, which is opened at run time.
 *
 * cuBLASLt's matrices are column-major. So the row-major y = x w is passed as the product of w and x, both
 * transposed, and a bias per column becomes a bias per row. Each product uses the first algorithm of cuBLASLt's
 * heuristic that needs at most SCRATCH bytes; it is chosen once. Split sums are added in a fixed order, without
 * atomics. f32 operands are rounded to TF32 only if the product allows it (tf32). */
#include "kernels/cuda/plugin/products.h"
#include "kernels/cuda/plugin/plugin.h"

#if __has_include(<cublasLt.h>)
#include <cublasLt.h>
#include <mutex>

enum { GPUS = 64, SCRATCH = 32 << 20 };

struct cublaslt {
    decltype(&cublasLtCreate) create;
    decltype(&cublasLtMatmulDescInit_internal) desc;
    decltype(&cublasLtMatmulDescSetAttribute) set_desc;
    decltype(&cublasLtMatrixLayoutInit_internal) layout;
    decltype(&cublasLtMatrixLayoutSetAttribute) set_layout;
    decltype(&cublasLtMatmulPreferenceInit_internal) preference;
    decltype(&cublasLtMatmulPreferenceSetAttribute) set_preference;
    decltype(&cublasLtMatmulAlgoGetHeuristic) choose;
    decltype(&cublasLtMatmul) multiply;
    decltype(&cublasLtGetStatusString) text;
    char version[32];
    const char *missing;
};

static cublaslt
open_cublaslt()
{
    cublaslt c = {};
    void *file = open_library("libcublasLt.so");
    decltype(&cublasLtGetVersion) version = nullptr;
    bool all = file && find(file, "cublasLtCreate", &c.create) &&
               find(file, "cublasLtMatmulDescInit_internal", &c.desc) &&
               find(file, "cublasLtMatmulDescSetAttribute", &c.set_desc) &&
               find(file, "cublasLtMatrixLayoutInit_internal", &c.layout) &&
               find(file, "cublasLtMatrixLayoutSetAttribute", &c.set_layout) &&
               find(file, "cublasLtMatmulPreferenceInit_internal", &c.preference) &&
               find(file, "cublasLtMatmulPreferenceSetAttribute", &c.set_preference) &&
               find(file, "cublasLtMatmulAlgoGetHeuristic", &c.choose) && find(file, "cublasLtMatmul", &c.multiply) &&
               find(file, "cublasLtGetStatusString", &c.text) && find(file, "cublasLtGetVersion", &version);
    size_t v = all ? version() : 0;
    if (!all)
        c.missing = "libcublasLt.so is missing or too old";
    else if (v / 10000 != CUBLAS_VER_MAJOR)
        c.missing = "libcublasLt.so has another version";
    snprintf(c.version, sizeof c.version, "cuBLASLt %d.%d", static_cast<int>(v / 10000),
             static_cast<int>(v / 100 % 100));
    return c;
}

static const cublaslt &
the_cublaslt()
{
    static const cublaslt c = open_cublaslt();
    return c;
}

const char *
products_library(const char **why)
{
    *why = the_cublaslt().missing;
    return *why ? nullptr : the_cublaslt().version;
}

/* An algorithm of cuBLASLt and its descriptors. A run sets the pointers in a copy of desc. */
struct algorithm {
    cublasLtHandle_t handle;
    cublasLtMatmulDescOpaque_t desc;
    cublasLtMatrixLayoutOpaque_t w, x, y;
    cublasLtMatmulAlgo_t algo;
    size_t scratch_bytes;
    bool doubles, bias, aux;
};

/* Returns the cuBLASLt handle of a GPU; NULL: cuBLASLt cannot use the GPU. The first call creates the handle. */
static cublasLtHandle_t
handle_of(int gpu)
{
    static std::mutex lock;
    static cublasLtHandle_t handle[GPUS];
    std::lock_guard<std::mutex> guard(lock);
    if (gpu >= GPUS || cudaSetDevice(gpu) != cudaSuccess) return nullptr;
    if (!handle[gpu] && the_cublaslt().create(&handle[gpu]) != CUBLAS_STATUS_SUCCESS) handle[gpu] = nullptr;
    return handle[gpu];
}

/* Sets attributes of a descriptor one by one, and keeps the first error. */
struct filling {
    const cublaslt &c;
    cublasStatus_t status = CUBLAS_STATUS_SUCCESS;

    void note(cublasStatus_t s)
    {
        if (status == CUBLAS_STATUS_SUCCESS) status = s;
    }
    template <class T> void set(cublasLtMatmulDescOpaque_t *d, cublasLtMatmulDescAttributes_t what, T value)
    {
        note(c.set_desc(d, what, &value, sizeof value));
    }
    template <class T> void set(cublasLtMatrixLayoutOpaque_t *l, cublasLtMatrixLayoutAttribute_t what, T value)
    {
        note(c.set_layout(l, what, &value, sizeof value));
    }
    template <class T> void set(cublasLtMatmulPreferenceOpaque_t *p, cublasLtMatmulPreferenceAttributes_t what, T value)
    {
        note(c.set_preference(p, what, &value, sizeof value));
    }
};

static cudaDataType
type_of(int64_t real)
{
    static const cudaDataType of[] = {CUDA_R_32F, CUDA_R_64F, CUDA_R_16BF, CUDA_R_16F};
    return of[real];
}

static cublasLtEpilogue_t
epilogue_of(const cuda_product *p)
{
    if (p->after == CUDA_GELU_SLOPE) return CUBLASLT_EPILOGUE_DGELU;
    if (p->after == CUDA_AS_IS) return p->bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
    if (p->aux) return p->bias ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_GELU_AUX;
    return p->bias ? CUBLASLT_EPILOGUE_GELU_BIAS : CUBLASLT_EPILOGUE_GELU;
}

static void
set_pointers(filling *f, algorithm *to, const void *bias, const void *aux)
{
    if (to->bias) f->set(&to->desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
    if (to->aux) f->set(&to->desc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, aux);
}

/* Describes a matrix to cuBLASLt, which reads the matrix's rows as columns. Returns true if cuBLASLt must
 * transpose the matrix. */
static bool
set_layout(filling *f, cublasLtMatrixLayoutOpaque_t *l, int64_t real, int64_t rows, int64_t cols, const cuda_matrix *m,
           int64_t batch)
{
    bool turned = m->col != 1;
    f->note(
        f->c.layout(l, sizeof *l, type_of(real), turned ? rows : cols, turned ? cols : rows, turned ? m->col : m->row));
    f->set(l, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, static_cast<int32_t>(batch));
    f->set(l, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, m->batch);
    return turned;
}

static cublasComputeType_t
compute_of(const cuda_product *p)
{
    if (p->from == CUDA_F64) return CUBLAS_COMPUTE_64F;
    return p->tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
}

static void
describe(filling *f, const cuda_product *p, algorithm *to)
{
    cublasLtMatmulDescOpaque_t *d = &to->desc;
    /* A placeholder address for the heuristic. It has the minimum alignment of operands. */
    void *const some = reinterpret_cast<void *>(CUDA_PRODUCT_ALIGN);
    to->doubles = p->from == CUDA_F64;
    to->bias = p->bias;
    to->aux = p->aux;
    f->note(f->c.desc(d, sizeof *d, compute_of(p), to->doubles ? CUDA_R_64F : CUDA_R_32F));
    bool w = set_layout(f, &to->w, p->from, p->k, p->n, &p->w, p->batch);
    bool x = set_layout(f, &to->x, p->from, p->m, p->k, &p->x, p->batch);
    set_layout(f, &to->y, p->to, p->m, p->n, &p->y, p->batch);
    f->set(d, CUBLASLT_MATMUL_DESC_TRANSA, w ? CUBLAS_OP_T : CUBLAS_OP_N);
    f->set(d, CUBLASLT_MATMUL_DESC_TRANSB, x ? CUBLAS_OP_T : CUBLAS_OP_N);
    f->set(d, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue_of(p));
    if (p->aux) f->set(d, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, p->y.row);
    set_pointers(f, to, some, some);
}

static void
prefer(filling *f, cublasLtMatmulPreferenceOpaque_t *p)
{
    static const cublasLtMatmulPreferenceAttributes_t align[] = {
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES};
    f->note(f->c.preference(p, sizeof *p));
    f->set(p, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<uint64_t>(SCRATCH));
    f->set(p, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
           /* Split sums are stored in scratch and added in order. */
           static_cast<uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
    for (auto a : align) f->set(p, a, static_cast<uint32_t>(CUDA_PRODUCT_ALIGN));
}

void *
products_find(int gpu, const cuda_product *p, size_t *scratch_bytes)
{
    filling f = {the_cublaslt()};
    algorithm w = {};
    cublasLtMatmulPreferenceOpaque_t preference;
    cublasLtMatmulHeuristicResult_t found = {};
    int n = 0;
    w.handle = handle_of(gpu);
    if (!w.handle) return nullptr;
    describe(&f, p, &w);
    prefer(&f, &preference);
    if (f.status == CUBLAS_STATUS_SUCCESS)
        f.note(f.c.choose(w.handle, &w.desc, &w.w, &w.x, &w.y, &w.y, &preference, 1, &found, &n));
    if (f.status != CUBLAS_STATUS_SUCCESS || n < 1 || found.state != CUBLAS_STATUS_SUCCESS) return nullptr;
    w.algo = found.algo;
    *scratch_bytes = w.scratch_bytes = found.workspaceSize;
    return keep_algo(new algorithm(w));
}

const char *
products_multiply(int gpu, const void *how, const cuda_factors *at)
{
    static const double one = 1, none = 0;
    static const float one_f = 1, none_f = 0;
    filling f = {the_cublaslt()};
    algorithm w = *static_cast<const algorithm *>(how);
    cudaError_t e = cudaSetDevice(gpu);
    if (e != cudaSuccess) return text_of(e);
    set_pointers(&f, &w, at->bias, at->aux);
    const void *alpha = w.doubles ? static_cast<const void *>(&one) : &one_f;
    const void *beta = w.doubles ? static_cast<const void *>(&none) : &none_f;
    if (f.status == CUBLAS_STATUS_SUCCESS)
        f.note(f.c.multiply(w.handle, &w.desc, alpha, at->w, &w.w, at->x, &w.x, beta, at->y, &w.y, at->y, &w.y, &w.algo,
                            at->scratch, w.scratch_bytes, cudaStreamPerThread));
    return f.status == CUBLAS_STATUS_SUCCESS ? nullptr : f.c.text(f.status);
}

#else

const char *
products_library(const char **why)
{
    *why = "the plug-in was built without cuBLASLt";
    return nullptr;
}

void *
products_find(int, const cuda_product *, size_t *)
{
    return nullptr;
}

const char *
products_multiply(int, const void *, const cuda_factors *)
{
    return "cuBLASLt is not available";
}
#endif
