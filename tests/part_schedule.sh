# The tests of schedules with many more random chains than the unit test has time for.
mkdir -p build/schedule
golden=tests/golden/checkpoint
if "${CC:-cc}" -std=c99 -O2 -o build/schedule/test tests/test_schedule.c tests/impl.c; then
  build/schedule/test $golden/rotor_exhaustive_small.txt $golden/revolve_binomial.csv \
    "$([ -n "$LONG" ] && echo 20000 || echo 2000)" >build/schedule/log 2>&1
  grep -v ' passed, ' build/schedule/log
  grep -q ' passed, ' build/schedule/log || bad "test_schedule stopped"
  add build/schedule/log
else
  bad "test_schedule does not build"
fi
