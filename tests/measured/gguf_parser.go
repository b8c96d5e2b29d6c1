// Answers of gguf-parser-go for tests/measured/peers.py: a JSON object a line (File, Devices, Ctx, Set: settings
// of a record) -> "ok", all bytes, those of the devices.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"

	. "github.com/gpustack/gguf-parser-go"
)

func main() {
	sc := bufio.NewScanner(os.Stdin)
	sc.Buffer(make([]byte, 1<<20), 1<<20)
	for sc.Scan() {
		var q struct {
			File    string
			Devices int
			Ctx     int32
			Set     map[string]any
		}
		if json.Unmarshal(sc.Bytes(), &q) != nil {
			continue
		}
		one(q.File, q.Devices, q.Ctx, q.Set)
	}
}
func one(file string, devices int, ctx int32, set map[string]any) {
	defer func() {
		if r := recover(); r != nil {
			fmt.Println("panic")
		}
	}()
	gf, err := ParseGGUFFile(file, SkipLargeMetadata())
	if err != nil {
		fmt.Println("error", err)
		return
	}
	num := func(k string, d float64) float64 {
		if v, ok := set[k].(float64); ok {
			return v
		}
		return d
	}
	typ := map[string]GGMLType{"f32": GGMLTypeF32, "f16": GGMLTypeF16, "bf16": GGMLTypeBF16, "q8_0": GGMLTypeQ8_0, "q4_0": GGMLTypeQ4_0, "q4_1": GGMLTypeQ4_1, "q5_0": GGMLTypeQ5_0, "q5_1": GGMLTypeQ5_1, "iq4_nl": GGMLTypeIQ4_NL}
	o := []GGUFRunEstimateOption{WithLLaMACppContextSize(ctx), WithLLaMACppLogicalBatchSize(int32(num("batch", 2048))), WithLLaMACppPhysicalBatchSize(int32(num("ubatch", 512))), WithParallelSize(int32(num("seq", 1)))}
	if num("fa", 1) != 0 {
		o = append(o, WithFlashAttention())
	}
	if k, ok := set["k"].(string); ok {
		o = append(o, WithLLaMACppCacheKeyType(typ[k]))
	}
	if k, ok := set["v"].(string); ok {
		o = append(o, WithLLaMACppCacheValueType(typ[k]))
	}
	if num("kqv", 1) == 0 {
		o = append(o, WithoutLLaMACppOffloadKVCache())
	}
	if num("swa_full", 0) != 0 {
		o = append(o, WithLLaMACppFullSizeSWACache())
	}
	if devices == 0 {
		o = append(o, WithLLaMACppOffloadLayers(0))
	} else if _, ok := set["ngl"]; ok {
		o = append(o, WithLLaMACppOffloadLayers(uint64(num("ngl", 0))))
	}
	if devices > 1 {
		w := make([]float64, devices)
		for i := range w {
			w[i] = 1
		}
		if ts, ok := set["ts"].(string); ok {
			for i, t := range strings.Split(ts, ",") {
				w[i], _ = strconv.ParseFloat(t, 64)
			}
		}
		s, a := 0.0, 0.0
		for _, v := range w {
			s += v
		}
		f := make([]float64, devices)
		for i := range w {
			a += w[i]
			f[i] = a / s
		}
		f[devices-1] = 1
		o = append(o, WithTensorSplitFraction(f))
	}
	e := gf.EstimateLLaMACppRun(o...)
	sum := uint64(0)
	for _, d := range e.Devices {
		sum += uint64(d.Weight.Sum() + d.KVCache.Sum() + d.Computation.Sum())
	}
	gpu := uint64(0)
	for _, d := range e.Devices[1:] {
		gpu += uint64(d.Weight.Sum() + d.KVCache.Sum() + d.Computation.Sum())
	}
	fmt.Println("ok", sum, gpu)
}
