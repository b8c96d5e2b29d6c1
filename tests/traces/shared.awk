# A pickle whose parts share what is large; kind: frames (entries share a list of frames), name (frames
# share a long name), entry (one entry again and again), blocks (segments share their blocks), devices
# (processes share their devices: for vram diff). n: how many. In characters only: protocol 0.
function text(s) { return "V" s "\n" }
function pair(key, value) { return text(key) value "s" } # into the dict on the stack
function number(n) { return "I" n "\n" }
function many(what,   i) { printf "("; for (i = 0; i < n; i++) printf "%s", what; printf "l" }
function long(   s) { for (s = "x"; length(s) < n;) s = s s; return s }
function alloc(i) { return pair("action", text("alloc")) pair("size", number(512)) pair("addr", number(4096 * i)) }
BEGIN {
  printf "(d"
  if (kind == "devices") { # 1: a device, 2: a list of it, 3: a process with that
    printf "%s(d%sp1\n0", text("processes"), pair("device", number(0)) pair("reserved_bytes.all.peak", number(7))
    many("g1\n"); printf "p2\n0(d%sg2\nsp3\n0", text("devices")
    many("g3\n"); printf "s."
    exit
  }
  # 1: the name of a file of PyTorch, 2: a frame of it, 3: the frames
  printf "%sp1\n0", text((kind == "name" ? long() : "") "/torch/x.py")
  printf "(d%sg1\nsp2\n0", text("filename")
  if (kind == "name") many("(d" text("filename") "g1\ns")
  else many("g2\n")
  printf "p3\n0%s((", text("device_traces")
  if (kind == "entry") {
    printf "(d%s%sg3\nsp4\n", alloc(1), text("frames")
    for (i = 1; i < n; i++) printf "g4\n"
  } else if (kind != "blocks")
    for (i = 1; i <= n; i++) printf "(d%s%sg3\ns", alloc(i), text("frames")
  printf "lls%s", text("segments")
  if (kind == "blocks") { # 5: a block, 6: the blocks
    printf "(d%sp5\n0", pair("size", number(512)) pair("state", text("inactive"))
    many("g5\n"); printf "p6\n0"
    many("(d" pair("total_size", number(512)) pair("address", number(0)) text("blocks") "g6\ns")
    printf "s."
  } else
    printf "(ls."
}
