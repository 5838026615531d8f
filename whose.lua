local net, bad, found = rille.nn.Linear(300, 200), 0, {}
for name in io.popen("ls " .. arg[1]):lines() do
  if name:find "safetensors$" then
    os.execute(("rm -rf one; mkdir one; cp %s/%s* one"):format(arg[1], name:gsub("safetensors$", "")))
    local _, own = rille.checkpoint.load("one", {model = net})
    for _, p in ipairs(net:parameters()) do bad = bad + p:ne(own):to"i64":sum():item() end
    found[#found + 1] = own
  end
end
print(bad, table.concat(found, " "))
