-- topics.lua - answers to users' words that are no page: a text, related pages, a chapter of the guide.
--
-- A topic has words (phrases that name it, with commas between them), text, see (its pages, best first), and the chapter of
-- docs/guide that has the details. alone: a question with more words than a phrase is not about the topic.
-- t/shell/help.lua checks that the pages and the chapters exist.

return {
  {words = "onnx, torchscript", see = "save model.save load", chapter = "saving.md#export",
    text = "ONNX is neither read nor written. Save as safetensors, load that file in Python, and export from there."},
  {words = "pickle, pt, pth, state dict file", see = "load save", chapter = "saving.md#export",
    text = "Files of torch.save are not read: convert them in Python with safetensors.torch.save_file."},
  {words = "gguf", see = "load io.contents tokenizer",
    text = "GGUF files of float and integer tensors are read; quantised tensors can only be listed. None are written."},
  {words = "kubernetes, k8s, pod", see = "workers train.exit_if_stopping checkpoint.save", chapter = "clusters.md#kubernetes",
    text = "examples/cluster/job.yaml is an indexed Job: each pod is a worker, pod 0 also runs the program."},
  {words = "slurm, srun, sbatch", see = "workers train.exit_if_stopping checkpoint.save", chapter = "clusters.md#slurm",
    text = "examples/cluster/train.sbatch runs a script on the nodes of a job: srun -n 4 rille -d cpu:1 train.lua."},
  {words = "torchrun, mpirun, launcher", see = "workers placement parallel", chapter = "clusters.md#several-processes-by-a-launcher",
    text = "rille launch -n 4 train.lua starts workers. torchrun, mpirun and srun can start rille, too."},
  {words = "pandas, dataframe, parquet", see = "data.csv data.loader load_npy", chapter = "first-model.md#from-a-csv-file",
    text = "There are no data frames: rille.data.csv reads a CSV file as a tensor. Write other tables as CSV or .npy first."},
  {words = "numpy, npy, npz", see = "load_npy load save", chapter = "saving.md#export",
    text = "rille.load_npy and rille.load read .npy and .npz, rille.save writes .npy."},
  {words = "csv, tsv", see = "data.csv data.loader", chapter = "first-model.md#from-a-csv-file",
    text = "rille.data.csv reads a file of separated numbers as a tensor."},
  {words = "early stopping, patience", see = "checkpoint.save model.save nn.Module.state_dict", chapter = "saving.md#resume-a-training",
    text = [[
No function stops a training early. Compare the validation loss after each epoch, save the model when it improves, and leave
the loop if it has not improved for some epochs. (?stopping is about signals and job limits.)]]},
  {words = "tensorboard, wandb, mlflow, logging, logger", see = "plot train.progress graph.trace", chapter = "training.md#watch-a-training",
    text = "No logger is built in. rille.plot draws curves as SVG, train.progress prints a line; io.open writes any other log."},
  {words = "jupyter, notebook, ipython", see = "help", chapter = "training.md#watch-a-training",
    text = "rille --jupyter-install adds a kernel to Jupyter; pictures appear below the cell."},
  {words = "distributed, multi gpu, multinode, data parallel, model parallel", see = "parallel placement to_global workers", chapter = "layouts.md",
    text = "A program runs once, for all devices: a placement names the devices, sbp the layout, and rille.parallel sets both for a model."},
  {words = "zero", alone = true, see = "parallel graph zero_", chapter = "layouts.md#by-a-recipe",
    text = "ZeRO: rille.parallel(model, {data = 0, zero = 3}), or zero = 3 of rille.graph. Zeros: ?zero_, ?zeros."},
  {words = "fsdp", see = "parallel graph", chapter = "layouts.md#by-a-recipe",
    text = "FSDP is rille.parallel(model, {data = 0, zero = 3}); HSDP has two data axes and zero_axes = 1."},
  {words = "ddp, horovod", see = "parallel graph", chapter = "layouts.md#by-a-recipe",
    text = "DDP is rille.parallel(model, {data = 0}): replicated parameters, and batches split over mesh axis 0."},
  {words = "megatron, tensor parallel", see = "parallel graph", chapter = "layouts.md#by-a-recipe",
    text = "Megatron's tensor parallelism is rille.parallel(model, {tensor = 0}); sequence = true shards norms and residuals, too."},
  {words = "checkpointing", alone = true, see = "nn.Module.recompute graph checkpoint.save checkpoint.load", chapter = "training.md#less-memory",
    text = "Activation checkpointing: recompute = true of rille.graph, or net:recompute(). Checkpoints of a training: ?checkpoint."},
  {words = "oom, out of memory", see = "nn.Module.recompute graph devices graph.stats", chapter = "training.md#less-memory",
    text = [[
Options of rille.graph need less memory: micro_batches, recompute, offload, zero; net:to("bf16") halves parameters. :mem at
the prompt lists what holds memory.]]},
  {words = "mixed precision, amp, fp16, bf16", see = "autocast nn.Module.to allow_tf32", chapter = "training.md#mixed-precision",
    text = "rille.autocast('bf16', fn) computes products in 16 bits."},
  {words = "gpu, cuda, nvidia", see = "device_info devices placement to_global", chapter = "clusters.md#gpus",
    text = "Start with rille -d cuda:all, and use rille.placement('cuda', {0}); x:to_global{placement = P} moves a tensor."},
  {words = "lora, peft, adapter", see = "nn.Module requires_grad_ optim.AdamW", chapter = "own-parts.md#a-layer",
    text = [[
No LoRA layer is built in. Write a module that adds x:matmul(a):matmul(b) to the output of a layer, and freeze the layer by
p:requires_grad_(false).]]},
  {words = "tokenizer, bpe, sentencepiece", see = "tokenizer tokenizer.encode tokenizer.train data.text", chapter = "first-model.md#from-text",
    text = "rille.tokenizer reads tokenizer.json and *.tiktoken of byte-level BPE; other kinds are refused."},
  {words = "profiler, profile, profiling", see = "graph.trace graph.show graph.stats", chapter = "debugging.md#a-slow-step",
    text = "step:show() draws the timeline of a step, step:trace(path) writes it for Perfetto, step:stats() has the numbers."},
  {words = "attention mask", see = "scaled_dot_product_attention nn.MultiheadAttention",
    text = "A bool mask keeps the keys where it is true; is_causal = true needs no mask."},
  {words = "mask, masking", alone = true, see = "masked_fill where scaled_dot_product_attention masked_select index",
    text = "x:masked_fill(mask, v) replaces elements, x[mask] selects them; attention has a mask of the keys that it keeps."},
}
