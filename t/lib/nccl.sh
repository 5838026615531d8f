# nccl.sh - simulated NCCL for tests of several workers: four GPUs of the simulated toolkit, and an NCCL stand-in whose
# communicators span processes. Source toolkit.sh first.
alone=gpus=4,memory=2000000000
export FAKE_CUDA=$alone,each FAKE_CUDA_LOG=$dir/told FAKE_NCCL_BOARD=$dir/board
anew() { rm -f "$dir"/told "$dir"/board*; }
nccl() { anew; go launch --collectives nccl "$@"; }
