-- killed.lua - returns a function for tests that lose a worker. The function takes a snapshot at step `at` and kills
-- the second worker. Then it calls again() until again() fails because of the loss, and recovers from the snapshot.

return function(at, again)
  rille.snapshot{i = at}
  os.execute("{ sleep 0.3; kill -9 " .. rille.workers()[2].pid .. "; } &")
  local ok, e
  repeat ok, e = pcall(again) until not ok
  assert(rille.is_lost(e), e)
  io.stderr:write("lost\n")
  assert(rille.recover().i == at)
end
