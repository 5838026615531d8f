/* fragments.cuh - matrix products in 16 bits by a warp, for attention and products.
 *
 * Sources of attention and products include this file after device.cuh and the definition of WARPS, the number of
 * warps per block. Sums are f32. Without tensor cores (a GPU before sm_80, the host) the same fragments are
 * exchanged through shared memory.
 *
 * Source: PTX ISA, mma.m16n8k16, ldmatrix, wgmma.mma_async and its matrix layouts in shared memory. */
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
#define MATRICES 1
#else
#define MATRICES 0
#endif
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
#define WARPGROUPS 1 /* 1: four warps can multiply matrices in shared memory together */
#else
#define WARPGROUPS 0
#endif

template <class T>
DEVICE uint32_t
pair_of(T low, T high)
{
    return low.bits | (uint32_t)high.bits << 16;
}
template <class T>
DEVICE float
half_of(uint32_t two, int which)
{
    const T x = {(uint16_t)(two >> 16 * which)};
    return widen(x);
}

/* ---- fragments: thread 4 g + t of a warp holds rows g and g + 8, columns 2 t and 2 t + 1 ---- */

DEVICE int
lane()
{
    return threadIdx.x % 32;
}
DEVICE int
row_of(int i) /* row of value i in a fragment of sums */
{
    return lane() / 4 + i / 2 * 8;
}
DEVICE int
column_of(int i)
{
    return lane() % 4 * 2 + i % 2;
}

/* Computes sum += x w. x: 16 x 16; w: 16 x 8. */
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

/* Loads a left operand from a tile in shared memory: rows m to m + 15, columns k to k + 15. */
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

/* Load two right operands of 8 columns each from a tile in shared memory. right_across() loads from the transposed
 * tile: rows n to n + 15 of the tile, columns k to k + 15. right_along() loads from the tile itself: rows k to k +
 * 15, columns n to n + 15. */
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

/* ---- multiplying matrices by warpgroups ---- */

/* Returns the position of column c in row r of a tile. If rows have GROUP elements (128 bytes), their eight units
 * of 16 bytes are permuted, depending on the row number. This is the 128-byte swizzle of warpgroup products; such
 * a tile is aligned to 1024 bytes. */
enum { GROUP = 64 };
template <int PITCH>
DEVICE int
column_in(int r, int c)
{
    return PITCH == GROUP ? c ^ r % 8 * 8 : c;
}
#if WARPGROUPS
/* Assembly text of a warpgroup product. Its result is valid after groups_wait(). */
#define SUMS4(a, b, c, d) "%" #a ", %" #b ", %" #c ", %" #d
#define ALL_SUMS                                                                                                       \
    "{" SUMS4(0, 1, 2, 3) ", " SUMS4(4, 5, 6, 7) ", " SUMS4(8, 9, 10, 11) ", " SUMS4(12, 13, 14, 15) ", " SUMS4(       \
        16, 17, 18, 19) ", " SUMS4(20, 21, 22, 23) ", " SUMS4(24, 25, 26, 27) ", " SUMS4(28, 29, 30, 31) "}, "
#define GROUP_STEP(type, x, w, more, turned)                                                                           \
    "wgmma.mma_async.sync.aligned.m64n64k16.f32." type "." type " " ALL_SUMS "{" x "}, " w ", " more ", 1, 1, " turned \
    ";\n"
#define GROUP_PRODUCT(type, turned, step)                                                                              \
    asm volatile(                                                                                                      \
        "{\n.reg .pred p, q;\n.reg .b64 w1, w2, w3;\nsetp.ne.b32 p, %49, 0;\nsetp.eq.b32 q, %49, %49;\n"               \
        "add.s64 w1, %48, " step ";\nadd.s64 w2, w1, " step ";\nadd.s64 w3, w2, " step ";\n"                           \
        "wgmma.fence.sync.aligned;\n" GROUP_STEP(type, SUMS4(32, 33, 34, 35), "%48", "p", turned)                      \
            GROUP_STEP(type, SUMS4(36, 37, 38, 39), "w1", "q", turned)                                                 \
                GROUP_STEP(type, SUMS4(40, 41, 42, 43), "w2", "q", turned)                                             \
                    GROUP_STEP(type, SUMS4(44, 45, 46, 47), "w3", "q", turned) "wgmma.commit_group.sync.aligned;\n}\n" \
        : "+f"(sum[0][0]), "+f"(sum[0][1]), "+f"(sum[0][2]), "+f"(sum[0][3]), "+f"(sum[1][0]), "+f"(sum[1][1]),        \
          "+f"(sum[1][2]), "+f"(sum[1][3]), "+f"(sum[2][0]), "+f"(sum[2][1]), "+f"(sum[2][2]), "+f"(sum[2][3]),        \
          "+f"(sum[3][0]), "+f"(sum[3][1]), "+f"(sum[3][2]), "+f"(sum[3][3]), "+f"(sum[4][0]), "+f"(sum[4][1]),        \
          "+f"(sum[4][2]), "+f"(sum[4][3]), "+f"(sum[5][0]), "+f"(sum[5][1]), "+f"(sum[5][2]), "+f"(sum[5][3]),        \
          "+f"(sum[6][0]), "+f"(sum[6][1]), "+f"(sum[6][2]), "+f"(sum[6][3]), "+f"(sum[7][0]), "+f"(sum[7][1]),        \
          "+f"(sum[7][2]), "+f"(sum[7][3])                                                                             \
        : "r"(x[0][0]), "r"(x[0][1]), "r"(x[0][2]), "r"(x[0][3]), "r"(x[1][0]), "r"(x[1][1]), "r"(x[1][2]),            \
          "r"(x[1][3]), "r"(x[2][0]), "r"(x[2][1]), "r"(x[2][2]), "r"(x[2][3]), "r"(x[3][0]), "r"(x[3][1]),            \
          "r"(x[3][2]), "r"(x[3][3]), "l"(w), "r"((int)more)                                                           \
        : "memory")

#endif
/* Starts sum = x w; if `more` is set, sum += x w. x: GROUP x GROUP elements as left operands, 16 rows per warp. w:
 * a tile of GROUP rows; if ALONG is false, its transpose. */
template <bool ALONG, class T>
DEVICE void
group_multiply(float (&sum)[8][4], const uint32_t (&x)[4][4], const T (*tile)[GROUP], bool more)
{
#if WARPGROUPS
    enum {
        ROWS8 = 1024 >> 4,
        BF16 = same<T, bf16>::IS
    }; /* ROWS8: distance between groups of eight rows, in units of 16 bytes */
    const uint64_t at = (uint32_t)__cvta_generic_to_shared(tile) >> 4;
    const uint64_t w = at | (uint64_t)1 << 16 | (uint64_t)ROWS8 << 32 | (uint64_t)1 << 62;
    if constexpr (BF16 && ALONG)
        GROUP_PRODUCT("bf16", "1", "128");
    else if constexpr (BF16)
        GROUP_PRODUCT("bf16", "0", "2");
    else if constexpr (ALONG)
        GROUP_PRODUCT("f16", "1", "128");
    else
        GROUP_PRODUCT("f16", "0", "2");
#else
    (void)sum, (void)x, (void)tile, (void)more; /* never called, because no tile has rows of this length */
#endif
}
/* Waits until all products that were started, except the last LATER ones, are done. */
template <int LATER>
DEVICE void
groups_wait()
{
#if WARPGROUPS
    asm volatile("wgmma.wait_group.sync.aligned %0;" : : "n"(LATER) : "memory");
#endif
}
/* Keeps the compiler from moving a read of these sums to a place before this call. */
template <int N>
DEVICE void
are_there(float (&sum)[N][4])
{
#if WARPGROUPS
#pragma unroll
    for (int n = 0; n < N; n++)
        asm volatile("" : "+f"(sum[n][0]), "+f"(sum[n][1]), "+f"(sum[n][2]), "+f"(sum[n][3]) : : "memory");
#endif
    (void)sum;
}
/* Makes this thread's writes to shared memory visible to warpgroup products that start after the next barrier. */
DEVICE void
tell_groups()
{
#if WARPGROUPS
    asm volatile("fence.proxy.async.shared::cta;" : : : "memory");
#endif
}
