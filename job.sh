sound=1 completions=2
pod() { NAMESPACE='' WORLD_SIZE=2 MASTER_ADDR='rille-0.rille.$(NAMESPACE).svc.cluster.local' MASTER_PORT=5555 KEY=/key/job.key SCRIPT=/script/train.lua JOB_COMPLETION_INDEX=$RANK MASTER_ADDR=$here MASTER_PORT=$port KEY=job.key SCRIPT=train.lua env -u RANK sh -c 'key=$(mktemp) && cat "$KEY" >"$key" && exec rille --key-file "$key" -d cpu:2 "$SCRIPT"' ; }
