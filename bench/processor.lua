-- processor.lua - what a training step and a pass take of the processor: for resnet.lua and llama.lua.
--
--   local timed, report = dofile("bench/processor.lua")(20)
--
-- timed(run) gives the least and the median of so many runs, in milliseconds; report(name, what, least, median) prints the
-- line of which bench/processor.awk makes a table.
return function(steps)
  local function timed(run)
    local times = {}
    for i = 0, steps do
      local start = os.clock()
      run()
      if i > 0 then times[i] = os.clock() - start end -- the first one compiles
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
