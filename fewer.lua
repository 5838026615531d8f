rille.snapshot() print(pcall(rille.recover, {workers = 9}))
