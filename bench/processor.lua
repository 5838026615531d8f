-- processor.lua - processor time of a training step and a forward pass, for resnet.lua and llama.lua.
--
--   local timed, report = dofile("bench/processor.lua")(20)
--
-- timed(run) returns the least and the median time of 20 runs, in milliseconds. report(name, what, least, median)
-- prints a line for bench/processor.awk.
return function(steps)
  local function timed(run)
    local times = {}
    for i = 0, steps do
      local start = os.clock()
      run()
      if i > 0 then times[i] = os.clock() - start end -- the first run compiles
    end
    table.sort(times)
    return times[1] * 1e3, times[(#times + 1) // 2] * 1e3
  end
  local function report(name, what, least, median)
    print(("%s\t%s\t%.2f\t%.2f"):format(name, what, least, median))
    io.stdout:flush()
  end
  return timed, report
end
