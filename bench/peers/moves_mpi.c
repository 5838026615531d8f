/* moves_mpi.c - the collectives of Open MPI, as its manual shows them; a peer in bench/moves.sh, built there by mpicc.
 *
 * mpirun -np N; prints "move, devices, bytes, column, microseconds": the slowest rank's time, the least of some
 * rounds. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static int rank, size;
static float *in, *out;

static void
all_reduce(int n)
{
    MPI_Allreduce(in, out, n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

static void
all_gather(int n)
{
    MPI_Allgather(in, n / size, MPI_FLOAT, out, n / size, MPI_FLOAT, MPI_COMM_WORLD);
}

static void
reduce_scatter(int n)
{
    MPI_Reduce_scatter_block(in, out, n / size, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

/* Exchanges contiguous blocks only. A real all-to-all of columns would also have to pack rows. */
static void
all_to_all(int n)
{
    MPI_Alltoall(in, n / size / size, MPI_FLOAT, out, n / size / size, MPI_FLOAT, MPI_COMM_WORLD);
}

static const struct {
    const char *name;
    void (*run)(int n);
    int least; /* minimum number of elements: 0: any number; 1: number of ranks; 2: square of that number */
} moves[] = {{"all-reduce", all_reduce, 0},
             {"all-gather", all_gather, 1},
             {"reduce-scatter", reduce_scatter, 1},
             {"all-to-all", all_to_all, 2}};

static double
least(void (*run)(int n), int n)
{
    int calls = n < 1 << 16 ? 200 : 1;
    double best = 1e9;
    for (int round = 0; round < 12; round++) {
        double took, slowest;
        MPI_Barrier(MPI_COMM_WORLD);
        took = MPI_Wtime();
        for (int i = 0; i < calls; i++) run(n);
        took = (MPI_Wtime() - took) / calls * 1e6;
        MPI_Allreduce(&took, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
        if (slowest < best) best = slowest;
    }
    return best;
}

int
main(int argc, char **argv)
{
    static const int bytes[] = {8, 4096, 262144, 2097152, 16777216, 67108864};
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    in = calloc(1 << 24, sizeof *in);
    out = calloc(1 << 24, sizeof *out);
    for (size_t m = 0; m < sizeof moves / sizeof *moves; m++)
        for (size_t s = 0; s < sizeof bytes / sizeof *bytes; s++) {
            int n = bytes[s] / 4;
            if (moves[m].least && n < (moves[m].least == 2 ? size * size : size)) continue;
            double us = least(moves[m].run, n);
            if (rank == 0) printf("%s\t%d\t%d\tOpen MPI\t%.2f\n", moves[m].name, size, bytes[s], us);
        }
    free(in);
    free(out);
    return MPI_Finalize();
}
