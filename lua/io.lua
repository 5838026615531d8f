-- io.lua - other programs' formats. Rille's own are rille.save and rille.load.

local check = require "rille.check"

local io = {}

function io.llmc()
  check.fail("rille.io.llmc: this version does not read llm.c checkpoints (.bin, magic 20240326) yet")
end

return check.names("rille.io", io)
