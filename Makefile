# Makefile - the few commands one types; CMake does the work. Each installs what is missing, when it may.
# SHARE=all: every case of exhaustive loops; k/n: that share. By default one share in eight, by the commit (.ci/prove).
# RILLE_ALL=1 runs tests again that passed and whose content is unchanged. JOBS: computing tests at a time.

.PHONY: all run test asan tsan bench docs install clean

all:
	@.ci/install
	cmake --preset release
	cmake --build --preset release

run:
	@.ci/install
	cmake --preset release
	cmake --build --preset release --target rille
	build/release/rille examples/digits.lua

test: all
	.ci/prove build/release

asan:
	@.ci/install
	cmake --preset asan
	cmake --build --preset asan
	.ci/prove build/asan

# The tests whose threads may race: those of actors, of streams, of clusters, and of kernels that share their work out.
THREAD_TESTS := $(addprefix act/,alloc bus calls collect fail open pack runs sim streams) runtime/stream plan/rows-far \
	$(addprefix cluster/,carrier hasty host link strangers) $(addprefix kernels/,threads team attention fused rows)
tsan:
	@.ci/install
	cmake --preset tsan
	cmake --build --preset tsan --target rille \
	  t-act t-act-alloc t-act-calls t-act-open t-act-runs t-act-sim t-runtime t-plan t-cluster t-kernels
	OMP_NUM_THREADS=1 TSAN_OPTIONS="suppressions=$(CURDIR)/t/tsan.supp" \
		$$(setarch -R true 2>/dev/null && echo setarch -R) .ci/prove build/tsan $(THREAD_TESTS)

bench: all
	for b in $(patsubst bench/%.c,build/release/bench/%,$(wildcard bench/*.c)); do $$b || exit 1; done
	for b in $(wildcard bench/*.lua); do build/release/rille $$b || exit 1; done

docs:
	@.ci/install mkdocs
	cmake --preset release
	cmake --build --preset release --target docs

install: all
	cmake --install build/release

clean:
	rm -rf build
