# The tests of schedules with many more random chains than the unit test has time for.
mkdir -p build/schedule
golden=tests/golden/checkpoint
if "$MAKE" -s --no-print-directory build/plain/test_schedule; then
  build/plain/test_schedule $golden/rotor_exhaustive_small.txt $golden/revolve_binomial.csv \
    "$([ -n "$LONG" ] && echo 20000 || echo 2000)" >build/schedule/log 2>&1
  grep -v ' passed, ' build/schedule/log
  grep -q ' passed, ' build/schedule/log || bad "test_schedule stopped"
  add build/schedule/log
else
  bad "test_schedule does not build"
fi
