-- mel.lua - log-mel spectrograms of sound, as Whisper's feature extractor makes them: windows of 400 samples, one
-- every 160 samples. All sums are f64; the result is f32.

local rille = require "rille"
local check = require "rille.base.check"
local layout = require "rille.base.layout"

local RATE <const>, WINDOW <const>, HOP <const> = 16000, 400, 160
local HALF <const> = WINDOW // 2

-- ---- constant matrices: Fourier transform and mel filters ----

-- Returns the matrix of the discrete Fourier transform of a window, (samples, 2 * frequencies): cosines, then sines,
-- both multiplied by Hann's window.
local function transform()
  local rows = {}
  for t = 0, WINDOW - 1 do
    local row, hann = {}, 0.5 - 0.5 * math.cos(2 * math.pi * t / WINDOW)
    for f = 0, HALF do
      local angle = 2 * math.pi * (f * t % WINDOW) / WINDOW
      row[f + 1], row[f + HALF + 2] = hann * math.cos(angle), hann * math.sin(angle)
    end
    rows[t + 1] = row
  end
  return rows
end

-- Returns the frequency, in Hz, of a value on Slaney's mel scale: linear up to 1000 Hz, then logarithmic.
local function hertz(mel) return mel < 15 and mel * 200 / 3 or 1000 * math.exp(math.log(6.4) / 27 * (mel - 15)) end

-- Returns the filters, (frequencies, bins): triangles of equal area, centred at equal distances on the mel scale.
local function filters(bins)
  local at, top, rows = {}, 15 + math.log(RATE / 2 / 1000) / (math.log(6.4) / 27), {}
  for i = 0, bins + 1 do at[i] = hertz(top * i / (bins + 1)) end
  for f = 0, HALF do
    local row, x = {}, f * RATE / WINDOW
    for b = 1, bins do
      local rise, fall = (x - at[b - 1]) / (at[b] - at[b - 1]), (at[b + 1] - x) / (at[b + 1] - at[b])
      row[b] = math.max(0, math.min(rise, fall)) * 2 / (at[b + 1] - at[b - 1])
    end
    rows[f + 1] = row
  end
  return rows
end

local made = {} -- number of bins -> filters; "transform" -> the transform

local function table_of(key, make)
  made[key] = made[key] or rille.tensor(make(), {dtype = "f64"})
  return made[key]
end

-- ---- computing a spectrogram ----

-- Returns x (batch, samples), cut or padded with zeros to n samples, and then extended at both ends by half a window
-- of reflected samples.
local function padded(x, n)
  x = x:slice(1, 0, math.min(n, x.shape[2]))
  if x.shape[2] < n then x = rille.concat({x, rille.zeros({x.shape[1], n - x.shape[2]}, {dtype = x.dtype})}, 1) end
  return rille.concat({x:slice(1, 1, HALF + 1):flip(1), x, x:slice(1, n - HALF - 1, n - 1):flip(1)}, 1)
end

-- Returns the overlapping windows of x, (batch, frames, 400).
local function windows(x, frames)
  local rows = x:slice(1, 0, (frames + 2) * HOP):reshape{x.shape[1], frames + 2, HOP}
  local last = rows:slice(1, 2, frames + 2):slice(2, 0, WINDOW - 2 * HOP)
  return rille.concat({rows:slice(1, 0, frames), rows:slice(1, 1, frames + 1), last}, 2)
end

local function spectrogram(sound, bins, frames)
  local x = windows(padded(sound:to("f64"), frames * HOP), frames)
  local y = rille.matmul(x, table_of("transform", transform)):square()
  local power = y:slice(2, 0, HALF + 1) + y:slice(2, HALF + 1, WINDOW + 2)
  local mel = rille.matmul(power, table_of(bins, function() return filters(bins) end)):clamp(1e-10, math.huge)
  local log = mel:log() * (1 / math.log(10))
  log = log:maximum(log:max{axis = {1, 2}, keepdim = true} - 8)
  return ((log + 4) * 0.25):transpose(1, 2):to("f32")
end

-- Computes a spectrogram. who: prefix of messages; sound: samples, (batch, samples) or (samples). Returns (batch,
-- bins, frames).
return function(who, sound, bins, frames)
  check.that(layout.is_tensor(sound) and layout.is_float(sound) and (sound.ndim == 1 or sound.ndim == 2) and sound:numel() > 0,
    "%s: sound must be a tensor of floats (batch, samples) or (samples), at %d Hz, found %s", who, RATE,
    layout.is_tensor(sound) and ("%s{%s}"):format(sound.dtype, table.concat(sound.shape, ", ")) or check.shown(sound))
  check.that(frames * HOP > HALF, "%s: a spectrogram must have at least 2 frames, found %d", who, frames)
  return rille.no_grad(spectrogram, sound.ndim == 1 and sound:unsqueeze(0) or sound, bins, frames)
end
