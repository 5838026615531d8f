# nccl.sh - for tests of several workers with NCCL: four GPUs of a toolkit without GPUs, and an NCCL whose seats meet across
# processes. Sourced behind toolkit.sh.
alone=gpus=4,memory=2000000000
export FAKE_CUDA=$alone,each FAKE_CUDA_LOG=$dir/told FAKE_NCCL_BOARD=$dir/board
anew() { rm -f "$dir"/told "$dir"/board*; }
nccl() { anew; go launch --collectives nccl "$@"; }
