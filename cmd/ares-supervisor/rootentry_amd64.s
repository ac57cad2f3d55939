#include "textflag.h"

DATA ·rootEntryAt+0(SB)/8, $·rootEntry(SB)
GLOBL ·rootEntryAt(SB), RODATA|NOPTR, $8

// rootEntry is where the program in a container with Container.Root begins; see the file userns.go. The process has one thread until it
// jumps to the beginning of the Go runtime. argc is at 0(SP), and argv[1] at 16(SP).
TEXT ·rootEntry(SB), NOSPLIT|NOFRAME, $0
	CMPQ	0(SP), $2
	JNE	begin
	MOVQ	16(SP), AX
	CMPB	(AX), $'b' // seat.BesideRoot
	JEQ	join
	CMPB	(AX), $'r' // seat.InsideRoot
	JNE	begin
	MOVQ	$272, AX // unshare(CLONE_NEWUSER)
	MOVQ	$0x10000000, DI
	SYSCALL
	JMP	keep
join:
	MOVQ	$308, AX // setns(seat.InsideUserFD, CLONE_NEWUSER)
	MOVQ	$5, DI
	MOVQ	$0x10000000, SI
	SYSCALL
keep:
	MOVQ	AX, ·rootEntered(SB)
begin:
	JMP	_rt0_amd64_linux(SB)
