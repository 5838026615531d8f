// cluster_gloo.cc - round trips and bandwidth of gloo over TCP between two processes; a peer in bench/cluster.sh,
// built there.
//
// Prints a row of bench/cluster. The waiting side sleeps, which is gloo's default.
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>
#include <gloo/transport/unbound_buffer.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

enum { ROUNDS = 32, SMALL = 64, LARGE = 64 << 20, TRIPS = 500, ACTS = 4, AHEAD = 2 };

using Buffer = std::unique_ptr<gloo::transport::UnboundBuffer>;

static double
least_us(int n, const std::function<void(int)> &run)
{
    double best = 1e30;
    run(n / 8 + AHEAD);
    for (int k = 0; k < ROUNDS; k++) {
        auto begin = std::chrono::steady_clock::now();
        run(n);
        std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - begin;
        best = std::min(best, took.count() / n);
    }
    return best;
}

static void
play(const char *folder, int rank)
{
    gloo::transport::tcp::attr attr;
    attr.hostname = "127.0.0.1";
    auto device = gloo::transport::tcp::CreateDevice(attr);
    auto store = gloo::rendezvous::FileStore(folder);
    gloo::rendezvous::Context context(rank, 2);
    context.connectFullMesh(store, device);
    std::vector<char> small(SMALL), large((size_t)AHEAD * LARGE);
    Buffer word = context.createUnboundBuffer(small.data(), SMALL), bytes[AHEAD];
    for (int i = 0; i < AHEAD; i++) bytes[i] = context.createUnboundBuffer(large.data() + (size_t)i * LARGE, LARGE);
    auto trips = [&](int n) {
        for (int i = 0; i < n; i++) {
            if (rank == 0) word->send(1, 0), word->waitSend();
            word->recv(!rank, 0), word->waitRecv();
            if (rank == 1) word->send(0, 0), word->waitSend();
        }
    };
    auto gifts = [&](int n) { // keeps AHEAD messages in flight; at the end the receiver confirms
        auto wait = [&](Buffer &b) { rank == 0 ? b->waitSend() : b->waitRecv(); };
        for (int i = 0; i < n; i++) {
            Buffer &b = bytes[i % AHEAD];
            if (i >= AHEAD) wait(b);
            rank == 0 ? b->send(1, 1 + i % AHEAD) : b->recv(0, 1 + i % AHEAD);
        }
        for (int i = 0; i < AHEAD; i++) wait(bytes[i]);
        trips(1);
    };
    double trip = least_us(TRIPS, trips), gift = least_us(ACTS, gifts);
    if (rank == 0) printf("%-28s %12s %12.2f %12.2f\n", "tcp, gloo", "", trip, LARGE / gift * 1e-3);
    fflush(stdout);
    _exit(0);
}

int
main()
{
    char folder[] = "/tmp/rille-gloo-XXXXXX";
    if (!mkdtemp(folder)) return 1;
    for (int rank = 0; rank < 2; rank++)
        if (fork() == 0) play(folder, rank);
    for (int rank = 0; rank < 2; rank++) wait(nullptr);
    return system((std::string("rm -rf ") + folder).c_str());
}
