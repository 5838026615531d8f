-- killed.lua - for tests of workers: the second one is killed while again() runs once more and once more, and training
-- goes back to a snapshot of step `at`.
local rille = require "rille"

return function(at, again)
  rille.snapshot{i = at}
  os.execute("{ sleep 0.3; kill -9 " .. rille.workers()[2].pid .. "; } &")
  local ok, e
  repeat ok, e = pcall(again) until not ok
  assert(rille.is_lost(e), e)
  io.stderr:write("lost\n")
  assert(rille.recover().i == at)
end
