// The process that holds a pod's namespaces open: it waits for the signal to end.
package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM, syscall.SIGINT)
	go func() {
		for { // as process 1 of a shared pid namespace it inherits orphans
			var status syscall.WaitStatus
			if pid, _ := syscall.Wait4(-1, &status, 0, nil); pid <= 0 {
				return
			}
		}
	}()
	<-ended
}
