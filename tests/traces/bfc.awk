# What the log of the BFC allocator says, from a short form of it: a SIZE ADDRESS, f SIZE [ADDRESS],
# r FROM TO, p PEAK
/^# name/ { name = $3 }
/^#/ { next }
{ printf "I1127 13:08:42.862253    1244 bfc_allocator.cc:387] " }
$1 == "a" { print "AllocateRaw " name "  " $2 " 0x" $3 }
$1 == "f" && NF == 2 { print "DeallocateRaw " name " " $2 }
$1 == "f" && NF == 3 { print "[mem-debug] DeallocateRaw," name "," $2 ",0x" $3 ",*** Begin stack trace ***" }
$1 == "p" { print "New Peak memory usage of " $2 " bytes for " name }
$1 == "r" {
  print "Extending allocation by 2.00MiB bytes for " name "."
  print "bfc_allocator.cc:233] Allocated memory at 0x" $2 " to 0x" $3
}
