/* A library that is linked with a runtime, is loaded, allocates and goes again. NAME: of its
   function. */
int cudaMalloc(void **, unsigned long);
int NAME(void **p, unsigned long n);
int NAME(void **p, unsigned long n) {
  const int status = cudaMalloc(p, n);
  return status; /* the call is not its last word: who called is in this library */
}
