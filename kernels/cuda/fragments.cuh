/* fragments.cuh - products of matrices of halves by a warp: what attention and products of halves are made of.
 *
 * Stands in their texts, behind device.cuh. A block has WARPS warps. Sums are f32. Where there are no matrix products - a
 * GPU before sm_80, the host - the same fragments go through shared memory.
 *
 * Source: PTX ISA, mma.m16n8k16 and ldmatrix. */
enum { WARPS = 8 };
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
#define MATRICES 1
#else
#define MATRICES 0
#endif

template <class T>
DEVICE uint32_t
pair_of(T low, T high)
{
    return low.bits | (uint32_t)high.bits << 16;
}

/* ---- fragments: thread 4 g + t of a warp has elements of rows g and g + 8, columns 2 t and 2 t + 1 ---- */

DEVICE int
lane()
{
    return threadIdx.x % 32;
}
DEVICE int
row_of(int i) /* of value i of a fragment of sums */
{
    return lane() / 4 + i / 2 * 8;
}
DEVICE int
column_of(int i)
{
    return lane() % 4 * 2 + i % 2;
}

/* sum += x w: x 16 x 16, w 16 x 8. */
#if MATRICES
DEVICE void
multiply_add(float (&sum)[4], const uint32_t (&x)[4], const uint32_t (&w)[2], bf16)
{
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(w[0]), "r"(w[1]));
}
DEVICE void
multiply_add(float (&sum)[4], const uint32_t (&x)[4], const uint32_t (&w)[2], f16)
{
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(w[0]), "r"(w[1]));
}
#else
template <class T>
DEVICE float
half_of(uint32_t two, int which)
{
    const T x = {(uint16_t)(two >> 16 * which)};
    return widen(x);
}
template <class T>
DEVICE void
multiply_add(float (&sum)[4], const uint32_t (&x)[4], const uint32_t (&w)[2], T)
{
    __shared__ uint32_t given[32 * WARPS][6];
    const int first = threadIdx.x - lane();
    for (int i = 0; i < 4; i++) given[threadIdx.x][i] = x[i];
    for (int i = 0; i < 2; i++) given[threadIdx.x][4 + i] = w[i];
    __syncthreads();
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < 16; k++) {
            const uint32_t left = given[first + row_of(i) % 8 * 4 + k % 8 / 2][row_of(i) / 8 + k / 8 * 2];
            const uint32_t right = given[first + column_of(i) * 4 + k % 8 / 2][4 + k / 8];
            sum[i] = add_product(sum[i], half_of<T>(left, k % 2), half_of<T>(right, k % 2));
        }
    __syncthreads();
}
#endif

/* A left factor of a tile in shared memory, rows m..m + 15, columns k..k + 15. */
template <class T, int PITCH>
DEVICE void
left_along(T (*tile)[PITCH], int m, int k, uint32_t (&to)[4])
{
#if MATRICES
    const T *at = &tile[m + lane() % 16][k + lane() / 16 * 8];
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"((uint32_t)__cvta_generic_to_shared(at))
                 : "memory");
#else
    for (int i = 0; i < 4; i++) {
        const T *at = &tile[m + row_of(i % 2 * 2)][k + column_of(0) + i / 2 * 8];
        to[i] = pair_of(at[0], at[1]);
    }
#endif
}

/* Two right factors, 8 columns each, of a tile in shared memory: of its transpose, whose columns are rows n..n + 15, at
 * columns k..k + 15 (right_across); of itself, rows k..k + 15, columns n..n + 15 (right_along). */
template <class T, int PITCH>
DEVICE void
right_across(T (*tile)[PITCH], int n, int k, uint32_t (&to)[2][2])
{
#if MATRICES
    const T *at = &tile[n + lane() / 16 * 8 + lane() % 8][k + lane() / 8 % 2 * 8];
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0][0]), "=r"(to[0][1]), "=r"(to[1][0]), "=r"(to[1][1])
                 : "r"((uint32_t)__cvta_generic_to_shared(at))
                 : "memory");
#else
    for (int i = 0; i < 4; i++) {
        const T *at = &tile[n + i / 2 * 8 + lane() / 4][k + i % 2 * 8 + column_of(0)];
        to[i / 2][i % 2] = pair_of(at[0], at[1]);
    }
#endif
}
template <class T, int PITCH>
DEVICE void
right_along(T (*tile)[PITCH], int k, int n, uint32_t (&to)[2][2])
{
#if MATRICES
    const T *at = &tile[k + lane() / 8 % 2 * 8 + lane() % 8][n + lane() / 16 * 8];
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0][0]), "=r"(to[0][1]), "=r"(to[1][0]), "=r"(to[1][1])
                 : "r"((uint32_t)__cvta_generic_to_shared(at))
                 : "memory");
#else
    for (int i = 0; i < 4; i++) {
        const int r = k + i % 2 * 8 + column_of(0), c = n + i / 2 * 8 + lane() / 4;
        to[i / 2][i % 2] = pair_of(tile[r][c], tile[r + 1][c]);
    }
#endif
}
