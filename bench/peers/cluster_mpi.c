/* cluster_mpi.c - round trips and bandwidth of MPI between two processes; a peer in bench/cluster.sh, built there by
 * mpicc.
 *
 * mpirun -np 2 cluster_mpi NAME; prints a row of bench/cluster. The receiver spins, because Open MPI cannot sleep. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROUNDS = 32, SMALL = 64, LARGE = 64 << 20, TRIPS = 500, ACTS = 4, AHEAD = 2 };

static int rank;
static char *bytes;

static void
trips(int n)
{
    for (int i = 0; i < n; i++) {
        if (rank == 0) MPI_Send(bytes, SMALL, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
        MPI_Recv(bytes, SMALL, MPI_BYTE, !rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (rank == 1) MPI_Send(bytes, SMALL, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
    }
}

/* Keeps AHEAD messages in flight. The receiver sends a confirmation when all messages have arrived. */
static void
gifts(int n)
{
    MPI_Request r[AHEAD];
    for (int i = 0; i < n; i++) {
        if (i >= AHEAD) MPI_Wait(&r[i % AHEAD], MPI_STATUS_IGNORE);
        if (rank == 0) MPI_Isend(bytes, LARGE, MPI_BYTE, 1, 0, MPI_COMM_WORLD, &r[i % AHEAD]);
        if (rank == 1)
            MPI_Irecv(bytes + (size_t)(i % AHEAD) * LARGE, LARGE, MPI_BYTE, 0, 0, MPI_COMM_WORLD, &r[i % AHEAD]);
    }
    MPI_Waitall(AHEAD, r, MPI_STATUSES_IGNORE);
    trips(1);
}

static double
least_us(void (*run)(int n), int n)
{
    double best = 1e30;
    run(n / 8 + AHEAD);
    for (int k = 0; k < ROUNDS; k++) {
        MPI_Barrier(MPI_COMM_WORLD);
        double begin = MPI_Wtime();
        run(n);
        double us = (MPI_Wtime() - begin) * 1e6 / n;
        if (us < best) best = us;
    }
    return best;
}

int
main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    bytes = calloc(AHEAD, LARGE);
    double trip = least_us(trips, TRIPS), gift = least_us(gifts, ACTS);
    if (rank == 0) printf("%-28s %12.2f %12s %12.2f\n", argc > 1 ? argv[1] : "MPI", trip, "", LARGE / gift * 1e-3);
    free(bytes);
    return MPI_Finalize();
}
